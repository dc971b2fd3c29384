#include "loaded_model.h"

#include <fmt/format.h>

#include <stdexcept>

#include "units.h"

namespace llm {

LoadedModel::LoadedModel(Config config, std::map<std::string, std::vector<float>, std::less<>> tensors)
    : config_(config), tensors_(std::move(tensors)) {
  for (const strata::Unit& unit : make_units(config_)) {
    for (const strata::Tensor& tensor : unit.tensors) {
      std::size_t wanted = 1;
      for (const std::int64_t extent : tensor.shape) wanted *= static_cast<std::size_t>(extent);
      const auto found = tensors_.find(tensor.name);
      if (found == tensors_.end())
        throw std::invalid_argument(fmt::format("the model has no tensor '{}'", tensor.name));
      if (found->second.size() != wanted) {
        throw std::invalid_argument(
            fmt::format("tensor '{}' has {} elements, not {}", tensor.name, found->second.size(), wanted));
      }
    }
  }
}

std::span<const std::byte> LoadedModel::bytes(std::string_view tensor) const {
  const auto found = tensors_.find(tensor);
  if (found == tensors_.end()) throw std::invalid_argument(fmt::format("the model has no tensor '{}'", tensor));
  return std::as_bytes(std::span(found->second));
}

}  // namespace llm
