// Where a unit's parameters are read and its gradients go: leases of the engine, or plain memory.
#pragma once

#include <strata/dtype.h>
#include <strata/lease.h>

#include <array>
#include <cstddef>
#include <span>
#include <string_view>

#include "matrix.h"

namespace llm {

class ParameterSource {
 public:
  virtual ~ParameterSource() = default;
  virtual strata::Dtype dtype() const = 0;
  virtual std::span<const std::byte> bytes(std::string_view tensor) const = 0;
};

class GradientTarget {
 public:
  virtual ~GradientTarget() = default;
  virtual strata::Dtype dtype() const = 0;
  virtual std::span<std::byte> bytes(std::string_view tensor) = 0;
};

class LeasedParameters final : public ParameterSource {
 public:
  explicit LeasedParameters(const strata::ParamLease& lease) : lease_(lease) {}
  strata::Dtype dtype() const override { return lease_.dtype(); }
  std::span<const std::byte> bytes(std::string_view tensor) const override { return lease_.bytes(tensor); }

 private:
  const strata::ParamLease& lease_;
};

class LeasedGradients final : public GradientTarget {
 public:
  explicit LeasedGradients(strata::GradLease& lease) : lease_(lease) {}
  strata::Dtype dtype() const override { return lease_.dtype(); }
  std::span<std::byte> bytes(std::string_view tensor) override { return lease_.bytes(tensor); }

 private:
  strata::GradLease& lease_;
};

// Turns tensors of one unit into operands of type T: in place where they are of that type already, else widened to f32
// in `scratch`, which holds one unit. Valid until the next begin().
template <class T>
class Operands {
 public:
  explicit Operands(std::span<float> scratch) : scratch_(scratch) {}
  void begin() { used_ = 0; }

  Matrix<const T> matrix(const ParameterSource& source, std::string_view tensor, std::size_t rows, std::size_t columns);
  const float* vector(const ParameterSource& source, std::string_view tensor, std::size_t count);

 private:
  const float* widened(const ParameterSource& source, std::string_view tensor, std::size_t count);

  std::span<float> scratch_;
  std::size_t used_ = 0;
};

// Gives f32 room for each gradient of one unit: the target's own where it is f32, else `scratch`, which finish()
// narrows into the target.
class GradientRoom {
 public:
  explicit GradientRoom(std::span<float> scratch) : scratch_(scratch) {}

  Matrix<float> matrix(GradientTarget& target, std::string_view tensor, std::size_t rows, std::size_t columns);
  float* vector(GradientTarget& target, std::string_view tensor, std::size_t count) {
    return matrix(target, tensor, 1, count).data;
  }
  void finish();

 private:
  struct Pending {
    std::span<const float> source;
    strata::Dtype dtype;
    void* target;
  };
  static constexpr std::size_t pending_max = 16;  // tensors of a unit

  std::span<float> scratch_;
  std::size_t used_ = 0;
  std::array<Pending, pending_max> pending_;
  std::size_t pending_count_ = 0;
};

// Joins matrices that lie behind one another without a gap, so that one product serves them. Order and rows are kept.
template <class T, std::size_t count>
class Stacked {
 public:
  explicit Stacked(const std::array<Matrix<T>, count>& parts) {
    for (const Matrix<T>& part : parts) {
      if (size_ > 0 && follows(parts_[size_ - 1], part)) {
        parts_[size_ - 1].rows += part.rows;
      } else {
        parts_[size_++] = part;
      }
    }
  }
  const Matrix<T>* begin() const { return parts_.data(); }
  const Matrix<T>* end() const { return parts_.data() + size_; }

 private:
  static bool follows(const Matrix<T>& before, const Matrix<T>& part) {
    return before.stride == part.stride && before.columns == part.columns && before.row(before.rows) == part.data;
  }
  std::array<Matrix<T>, count> parts_;
  std::size_t size_ = 0;
};

}  // namespace llm
