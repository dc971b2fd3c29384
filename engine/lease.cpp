#include <strata/lease.h>

#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "engine/core.h"

namespace strata {
namespace {

template <typename T, typename Bytes>
std::span<T> cast_span(std::span<Bytes> bytes) {
  return {reinterpret_cast<T*>(bytes.data()), bytes.size() / sizeof(T)};
}

detail::EngineCore& require(detail::EngineCore* core) {
  if (core == nullptr)
    throw Error(ErrorCode::invalid_argument, "the lease is over: it was moved from, released or committed");
  return *core;
}

}  // namespace

ParamLease& ParamLease::operator=(ParamLease&& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(unit_, other.unit_);
  std::swap(data_, other.data_);
  return *this;
}

ParamLease::~ParamLease() {
  if (core_ != nullptr) core_->release_params(unit_);
}

Dtype ParamLease::dtype() const { return require(core_).context().options.dtype; }

std::span<const std::byte> ParamLease::bytes(std::string_view tensor) const {
  return require(core_).param_bytes(unit_, tensor, data_);
}

std::span<const float> ParamLease::f32(std::string_view tensor) const {
  require(core_).require_dtype(Dtype::f32, dtype(), tensor);
  return cast_span<const float>(bytes(tensor));
}

std::span<const strata::bf16> ParamLease::bf16(std::string_view tensor) const {
  require(core_).require_dtype(Dtype::bf16, dtype(), tensor);
  return cast_span<const strata::bf16>(bytes(tensor));
}

std::span<const strata::f16> ParamLease::f16(std::string_view tensor) const {
  require(core_).require_dtype(Dtype::f16, dtype(), tensor);
  return cast_span<const strata::f16>(bytes(tensor));
}

GradLease& GradLease::operator=(GradLease&& other) noexcept {
  std::swap(core_, other.core_);
  std::swap(unit_, other.unit_);
  std::swap(slot_, other.slot_);
  std::swap(data_, other.data_);
  return *this;
}

GradLease::~GradLease() {
  if (core_ != nullptr) core_->discard(unit_, slot_, data_);
}

Dtype GradLease::dtype() const { return require(core_).context().options.grad_dtype; }

std::span<std::byte> GradLease::bytes(std::string_view tensor) const {
  return require(core_).grad_bytes(unit_, tensor, data_);
}

std::span<float> GradLease::f32(std::string_view tensor) const {
  require(core_).require_dtype(Dtype::f32, dtype(), tensor);
  return cast_span<float>(bytes(tensor));
}

std::span<strata::bf16> GradLease::bf16(std::string_view tensor) const {
  require(core_).require_dtype(Dtype::bf16, dtype(), tensor);
  return cast_span<strata::bf16>(bytes(tensor));
}

std::span<strata::f16> GradLease::f16(std::string_view tensor) const {
  require(core_).require_dtype(Dtype::f16, dtype(), tensor);
  return cast_span<strata::f16>(bytes(tensor));
}

void GradLease::zero() {
  const std::span<std::byte> room = require(core_).grad_room(unit_, data_);
  if (!room.empty()) std::memset(room.data(), 0, room.size());
}

void GradLease::commit() { require(std::exchange(core_, nullptr)).commit(unit_, slot_, data_); }

namespace detail {

std::size_t EngineCore::tensor_of(std::size_t unit, std::string_view tensor) const {
  const auto& index = context_.states[unit].tensor_index;
  const auto found = index.find(tensor);
  if (found != index.end()) return found->second;
  std::string known;
  for (const Tensor& own : context_.units[unit].tensors)
    known += fmt::format("{}'{}'", known.empty() ? "" : ", ", own.name);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("unit '{}' has no tensor '{}'; it has {}", context_.units[unit].name, tensor, known));
}

std::span<const std::byte> EngineCore::param_bytes(std::size_t unit, std::string_view tensor,
                                                   const std::byte* data) const {
  const std::size_t index = tensor_of(unit, tensor);
  const std::size_t element_bytes = bytes_per_element(context_.options.dtype);
  const sharding::FlatLayout& layout = context_.layouts[unit];
  return {data + layout.whole_offset(index) * element_bytes, layout.place(index).element_count * element_bytes};
}

std::span<std::byte> EngineCore::grad_bytes(std::size_t unit, std::string_view tensor, std::byte* data) const {
  const std::size_t index = tensor_of(unit, tensor);
  const sharding::TensorPlace& place = context_.layouts[unit].place(index);
  if (place.training == Training::frozen) {
    throw Error(ErrorCode::invalid_argument, fmt::format("tensor '{}' is frozen and has no gradient", tensor));
  }
  if (place.element_count == 0) return {};
  const std::size_t element_bytes = bytes_per_element(context_.options.grad_dtype);
  return {data + place.offset * element_bytes, place.element_count * element_bytes};
}

std::span<std::byte> EngineCore::grad_room(std::size_t unit, std::byte* data) const {
  if (data == nullptr) return {};
  return {data, context_.layouts[unit].trainable().full_count * bytes_per_element(context_.options.grad_dtype)};
}

void EngineCore::require_dtype(Dtype wanted, Dtype actual, std::string_view tensor) const {
  if (wanted == actual) return;
  throw Error(ErrorCode::invalid_argument, fmt::format("tensor '{}' was asked for as {}, but this lease is {}", tensor,
                                                       to_string(wanted), to_string(actual)));
}

}  // namespace detail
}  // namespace strata
