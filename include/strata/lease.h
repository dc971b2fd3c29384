// The right to use a gathered unit, ended by its destructor.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include <strata/dtype.h>

namespace strata {

namespace detail {
class EngineCore;
}

// The parameters of one unit, in the published dtype. Read only: ranks of one host may share the bytes.
// Threading: from any thread while it lives; to be ended by the thread that makes the engine's calls.
class ParamLease {
 public:
  ParamLease() = default;
  ParamLease(ParamLease&& other) noexcept { *this = std::move(other); }
  ParamLease& operator=(ParamLease&& other) noexcept;
  ~ParamLease();

  Dtype dtype() const;

  // The whole tensor, row-major, at a 64-byte boundary. Throw invalid_argument for a name that the unit does not have
  // (the text lists those it has) or another dtype than the published one.
  std::span<const float> f32(std::string_view tensor) const;
  std::span<const strata::bf16> bf16(std::string_view tensor) const;
  std::span<const strata::f16> f16(std::string_view tensor) const;
  std::span<const std::byte> bytes(std::string_view tensor) const;  // any dtype

 private:
  friend class detail::EngineCore;
  ParamLease(detail::EngineCore* core, std::size_t unit, const std::byte* data)
      : core_(core), unit_(unit), data_(data) {}

  detail::EngineCore* core_ = nullptr;
  std::size_t unit_ = 0;
  const std::byte* data_ = nullptr;
};

// Room for the gradients of one unit, in the gradient dtype. Contents are undefined at first: store each tensor once,
// or call zero(). A lease that ends without commit() discards: all ranks then skip the step and say so.
class GradLease {
 public:
  GradLease() = default;
  GradLease(GradLease&& other) noexcept { *this = std::move(other); }
  GradLease& operator=(GradLease&& other) noexcept;
  ~GradLease();

  Dtype dtype() const;
  std::span<float> f32(
      std::string_view tensor) const;  // as in ParamLease; a frozen tensor has no gradient: invalid_argument
  std::span<strata::bf16> bf16(std::string_view tensor) const;
  std::span<strata::f16> f16(std::string_view tensor) const;
  std::span<std::byte> bytes(std::string_view tensor) const;
  void zero();

  // Hands the gradients in, to be summed over ranks; the lease is over. Returns before the sum is done.
  void commit();

 private:
  friend class detail::EngineCore;
  GradLease(detail::EngineCore* core, std::size_t unit, std::size_t slot, std::byte* data)
      : core_(core), unit_(unit), slot_(slot), data_(data) {}

  detail::EngineCore* core_ = nullptr;
  std::size_t unit_ = 0;
  std::size_t slot_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace strata
