// Where each tensor of a unit lies in the unit's flat buffer, and which elements each rank owns.
//
//   | trainable tensors, gaps | end gap | (to 2,048) | frozen tensors, gaps | end gap |
//   0                         used      full         frozen_begin
//
// Each part is cut into size() equal shards. A tensor starts at a multiple of 32 elements of its part (64 bytes in
// bf16). A shard is a multiple of 256 elements (one leaf of the norm), and of 2,048 (4 KiB in bf16) where the part has
// at least 65,536 elements, so that the padding of small units stays small. INVARIANT: offsets within a part, and so
// leaf indices, do not depend on the world size.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <strata/communicator.h>
#include <strata/unit.h>

namespace strata::sharding {

inline constexpr std::size_t tensor_alignment_count = 32;
inline constexpr std::size_t large_part_count = 64 * 1024;  // a part of at least so many elements ...
inline constexpr std::size_t large_granule_count = 2048;    // ... has shards that are multiples of this

struct TensorPlace {
  std::size_t offset = 0;  // elements from the start of its part
  std::size_t element_count = 0;
  Training training = Training::trainable;
};

struct FlatRange {
  std::size_t begin = 0;  // elements from the start of the part
  std::size_t end = 0;

  std::size_t count() const { return end - begin; }
};

// One of the two parts. A part without elements has no shards either: all counts are 0.
struct FlatPart {
  std::size_t used_count = 0;          // to the end of the last tensor; the same for all world sizes
  std::size_t shard_count = 0;         // elements of each rank's shard
  std::size_t full_count = 0;          // of all shards
  std::vector<std::uint32_t> tensors;  // indices of its tensors with at least one element, by ascending offset

  std::size_t leaf_count() const { return (used_count + norm_leaf_count - 1) / norm_leaf_count; }
};

class FlatLayout {
 public:
  FlatLayout() = default;
  // Pure. Throws invalid_argument for a shape without a size (Tensor::element_count). REQUIRES world_size >= 1.
  FlatLayout(const Unit& unit, int world_size);

  int world_size() const { return world_size_; }
  const FlatPart& trainable() const { return trainable_; }
  const FlatPart& frozen() const { return frozen_; }
  const FlatPart& part(Training training) const { return training == Training::trainable ? trainable_ : frozen_; }

  std::size_t frozen_begin() const { return frozen_begin_; }  // where the frozen part starts in the whole buffer
  std::size_t whole_count() const { return frozen_begin_ + frozen_.full_count; }

  // By the tensor's index in the unit.
  const TensorPlace& place(std::size_t tensor) const { return places_[tensor]; }
  std::size_t whole_offset(std::size_t tensor) const {
    const TensorPlace& at = places_[tensor];
    return at.offset + (at.training == Training::frozen ? frozen_begin_ : 0);
  }

  FlatRange shard(Training training, int rank) const {
    const std::size_t count = part(training).shard_count;
    return {count * static_cast<std::size_t>(rank), count * (static_cast<std::size_t>(rank) + 1)};
  }

  // Leaves of the trainable part that lie in the rank's shard and begin before used_count; [begin, end) may be empty.
  FlatRange leaves(int rank) const;

  // Elements of the trainable part that belong to no tensor, ascending: to be zeroed in a gradient lease.
  std::span<const FlatRange> gaps() const { return gaps_; }

  // Calls visit(tensor index, first element within the tensor, offset within the part, count) for each piece of a
  // tensor that lies in elements [begin, end) of the part, ascending.
  template <typename Visit>
  void ranges_of(Training training, FlatRange range, Visit&& visit) const {
    const std::vector<std::uint32_t>& tensors = part(training).tensors;
    auto at = std::upper_bound(tensors.begin(), tensors.end(), range.begin,
                               [&](std::size_t begin, std::uint32_t tensor) { return begin < end_of(tensor); });
    for (; at != tensors.end() && places_[*at].offset < range.end; ++at) {
      const TensorPlace& place = places_[*at];
      const std::size_t begin = std::max(place.offset, range.begin);
      const std::size_t end = std::min(end_of(*at), range.end);
      if (begin < end) visit(std::size_t{*at}, begin - place.offset, begin, end - begin);
    }
  }

 private:
  std::size_t end_of(std::size_t tensor) const { return places_[tensor].offset + places_[tensor].element_count; }
  FlatPart lay_out(const Unit& unit, Training training);

  int world_size_ = 1;
  FlatPart trainable_;
  FlatPart frozen_;
  std::size_t frozen_begin_ = 0;
  std::vector<TensorPlace> places_;
  std::vector<FlatRange> gaps_;
};

}  // namespace strata::sharding
