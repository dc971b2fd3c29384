#include "parameters.h"

#include <fmt/format.h>

#include <stdexcept>
#include <type_traits>

#include "kernels/convert.h"

namespace llm {

namespace {

void check_extent(std::string_view tensor, std::size_t bytes, std::size_t count, strata::Dtype dtype) {
  const std::size_t wanted = count * strata::bytes_per_element(dtype);
  if (bytes == wanted) return;
  throw std::invalid_argument(fmt::format("tensor '{}' has {} bytes, not {}", tensor, bytes, wanted));
}

}  // namespace

template <class T>
const float* Operands<T>::widened(const ParameterSource& source, std::string_view tensor, std::size_t count) {
  if (used_ + count > scratch_.size()) throw std::logic_error(fmt::format("no room to widen '{}'", tensor));
  float* at = scratch_.data() + used_;
  used_ += count;
  widen(source.bytes(tensor).data(), source.dtype(), {at, count});
  return at;
}

template <class T>
Matrix<const T> Operands<T>::matrix(const ParameterSource& source, std::string_view tensor, std::size_t rows,
                                    std::size_t columns) {
  const auto bytes = source.bytes(tensor);
  check_extent(tensor, bytes.size(), rows * columns, source.dtype());
  const bool same = source.dtype() == (std::is_same_v<T, float> ? strata::Dtype::f32 : strata::Dtype::bf16);
  if (same) return {reinterpret_cast<const T*>(bytes.data()), rows, columns};
  if constexpr (std::is_same_v<T, float>) {
    return {widened(source, tensor, rows * columns), rows, columns};
  } else {
    throw std::invalid_argument(fmt::format("tensor '{}' is {}: bf16 products need bf16 parameters", tensor,
                                            strata::to_string(source.dtype())));
  }
}

template <class T>
const float* Operands<T>::vector(const ParameterSource& source, std::string_view tensor, std::size_t count) {
  const auto bytes = source.bytes(tensor);
  check_extent(tensor, bytes.size(), count, source.dtype());
  if (source.dtype() == strata::Dtype::f32) return reinterpret_cast<const float*>(bytes.data());
  return widened(source, tensor, count);
}

template class Operands<float>;
template class Operands<strata::bf16>;

Matrix<float> GradientRoom::matrix(GradientTarget& target, std::string_view tensor, std::size_t rows,
                                   std::size_t columns) {
  const auto bytes = target.bytes(tensor);
  const std::size_t count = rows * columns;
  check_extent(tensor, bytes.size(), count, target.dtype());
  if (target.dtype() == strata::Dtype::f32) return {reinterpret_cast<float*>(bytes.data()), rows, columns};
  if (used_ + count > scratch_.size() || pending_count_ == pending_max) {
    throw std::logic_error(fmt::format("no room for the gradient of '{}'", tensor));
  }
  float* at = scratch_.data() + used_;
  used_ += count;
  pending_[pending_count_++] = {{at, count}, target.dtype(), bytes.data()};
  return {at, rows, columns};
}

void GradientRoom::finish() {
  for (std::size_t i = 0; i < pending_count_; ++i) narrow(pending_[i].source, pending_[i].dtype, pending_[i].target);
  used_ = pending_count_ = 0;
}

}  // namespace llm
