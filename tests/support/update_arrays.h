// The arrays of an update, filled with difficult values, and compared bit for bit.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include <strata/detail/cast.h>
#include <strata/optimizer.h>

namespace strata::test {

struct UpdateDtypes {
  Dtype gradient = Dtype::f32;
  Dtype published = Dtype::bf16;

  std::string text() const {
    return "gradient " + std::string(to_string(gradient)) + ", published " + std::string(to_string(published));
  }
};

inline std::vector<UpdateDtypes> all_update_dtypes() {
  std::vector<UpdateDtypes> all;
  for (const Dtype gradient : {Dtype::f32, Dtype::bf16}) {
    for (const Dtype published : {Dtype::f32, Dtype::bf16, Dtype::f16}) all.push_back({gradient, published});
  }
  return all;
}

class UpdateArrays {
 public:
  UpdateArrays(std::size_t count, std::size_t moment_count, const UpdateDtypes& dtypes, unsigned seed)
      : dtypes_(dtypes),
        master_(count),
        gradient_(count * bytes_per_element(dtypes.gradient)),
        published_(count * bytes_per_element(dtypes.published), std::byte{0xA5}),
        moments_(moment_count) {
    std::mt19937 random(seed);
    for (float& value : master_) value = difficult(random, 1.0f);
    for (std::size_t i = 0; i < count; ++i) set_gradient(i, difficult(random, 0.1f));
    for (std::size_t k = 0; k < moment_count; ++k) {
      moments_[k].resize(count);
      for (float& value : moments_[k]) value = k == 0 ? difficult(random, 0.1f) : std::fabs(difficult(random, 0.01f));
    }
  }

  std::size_t count() const { return master_.size(); }
  float* master() { return master_.data(); }
  float* moment(std::size_t k) { return moments_[k].data(); }
  const std::byte* published() const { return published_.data(); }

  void set_gradient(std::size_t i, float value) {
    const bf16 rounded = detail::to_bf16(value);
    if (dtypes_.gradient == Dtype::f32) std::memcpy(gradient_.data() + 4 * i, &value, 4);
    if (dtypes_.gradient == Dtype::bf16) std::memcpy(gradient_.data() + 2 * i, &rounded, 2);
  }

  UpdatePiece piece() { return piece(0, count()); }
  UpdatePiece piece(std::size_t first, std::size_t piece_count) {
    UpdatePiece piece{.count = piece_count,
                      .master = master_.data() + first,
                      .gradient = gradient_.data() + first * bytes_per_element(dtypes_.gradient),
                      .gradient_dtype = dtypes_.gradient,
                      .published = published_.data() + first * bytes_per_element(dtypes_.published),
                      .published_dtype = dtypes_.published};
    for (std::size_t k = 0; k < moments_.size(); ++k) piece.moments[k] = moments_[k].data() + first;
    return piece;
  }

  // "" when all bits are the same, else which array differs first, where.
  std::string first_difference(const UpdateArrays& other) const {
    std::string found = difference("master", master_, other.master_);
    for (std::size_t k = 0; k < moments_.size() && found.empty(); ++k) {
      found = difference("moment " + std::to_string(k), moments_[k], other.moments_[k]);
    }
    if (found.empty()) found = difference("published byte", published_, other.published_);
    if (found.empty()) found = difference("gradient byte", gradient_, other.gradient_);
    return found;
  }

 private:
  static float difficult(std::mt19937& random, float size) {
    const float ordinary = size * std::normal_distribution<float>()(random);
    switch (random() % 24) {
      case 0: return 0.0f;
      case 1: return -0.0f;
      case 2: return std::bit_cast<float>(static_cast<std::uint32_t>(random() % 0x800000));  // denormal
      case 3: return ordinary * 1e-20f;
      case 4: return ordinary * 1e17f;
      case 5: return ordinary * 1e30f;
      case 6: return ordinary * 65'504.0f;  // about where f16 ends
      case 7: return -std::numeric_limits<float>::infinity();
      case 8: return std::bit_cast<float>(0x7F800001u | static_cast<std::uint32_t>(random() % 2) << 31);  // NaN
      default: return ordinary;
    }
  }

  template <class T>
  static std::string difference(const std::string& what, const std::vector<T>& got, const std::vector<T>& want) {
    if (got.empty() || std::memcmp(got.data(), want.data(), got.size() * sizeof(T)) == 0) return "";
    std::size_t i = 0;
    while (std::memcmp(&got[i], &want[i], sizeof(T)) == 0) ++i;
    std::array<std::uint32_t, 2> bits = {0, 0};
    std::memcpy(&bits[0], &got[i], sizeof(T));
    std::memcpy(&bits[1], &want[i], sizeof(T));
    return what + " " + std::to_string(i) + ": bits " + std::to_string(bits[0]) + ", not " + std::to_string(bits[1]);
  }

  UpdateDtypes dtypes_;
  std::vector<float> master_;
  std::vector<std::byte> gradient_;
  std::vector<std::byte> published_;
  std::vector<std::vector<float>> moments_;
};

}  // namespace strata::test
