#include <strata/unit.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>
#include <unordered_set>

#include <strata/error.h>
#include "engine/unit_check.h"

namespace strata {

std::size_t Tensor::element_count() const {
  std::size_t count = 1;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(count, static_cast<std::size_t>(extent), &count) || count > (1ull << 48)) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("tensor '{}' has shape [{}]: extents must not be negative, and their product at most 2^48", name,
                      fmt::join(shape, ", ")));
    }
  }
  return count;
}

namespace engine {
namespace {

void check_tensor(const Unit& unit, const Tensor& tensor) {
  if (tensor.name.empty()) {
    throw Error(ErrorCode::invalid_argument, fmt::format("a tensor of unit '{}' has no name", unit.name));
  }
  if (!std::isfinite(tensor.lr_factor) || tensor.lr_factor < 0) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("tensor '{}' has lr_factor {}: it must be finite and at least 0", tensor.name, tensor.lr_factor));
  }
  tensor.element_count();
}

}  // namespace

void check_units(std::span<const Unit> units) {
  std::unordered_set<std::string_view> unit_names;
  std::unordered_set<std::string_view> tensor_names;
  if (units.empty()) throw Error(ErrorCode::invalid_argument, "the model has no units: give the engine at least one");
  for (const Unit& unit : units) {
    if (unit.name.empty() || !unit_names.insert(unit.name).second) {
      throw Error(ErrorCode::invalid_argument, fmt::format("unit name '{}' is empty or given twice", unit.name));
    }
    for (const Tensor& tensor : unit.tensors) {
      check_tensor(unit, tensor);
      if (!tensor_names.insert(tensor.name).second) {
        throw Error(ErrorCode::invalid_argument,
                    fmt::format("tensor name '{}' is given twice (unit '{}'): names must be unique in the model",
                                tensor.name, unit.name));
      }
    }
  }
}

}  // namespace engine
}  // namespace strata
