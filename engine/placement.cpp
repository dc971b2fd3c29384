#include "engine/placement.h"

#include <algorithm>
#include <array>

namespace strata::engine {
namespace {

constexpr std::array<TierKind, 3> fastest_first{TierKind::device, TierKind::host, TierKind::nvme};

bool may_lie_in(TierKind tier, Home home, bool movable, const Options& options) {
  if (!movable) return tier == TierKind::device;
  switch (home) {
    case Home::device: return tier == TierKind::device;
    case Home::host: return tier == TierKind::host;
    case Home::nvme: return tier == TierKind::nvme;
    case Home::automatic: return tier != TierKind::nvme || !options.nvme_dirs.empty();
  }
  return false;
}

bool published_may(TierKind tier, const Options& options) {
  return may_lie_in(tier, options.params, options.stage == 3, options);
}

bool accumulators_may(TierKind tier, const Options& options) {
  return may_lie_in(tier, options.gradients, !accumulators_are_whole(options), options);
}

bool records_may(TierKind tier, const Options& options) { return may_lie_in(tier, options.optimizer, true, options); }

class RoomLeft {
 public:
  explicit RoomLeft(const Room& room) : room_(room) {}

  bool take(TierKind tier, std::uint64_t bytes) {
    if (bytes > left(tier)) return false;
    if (tier == TierKind::nvme) {
      room_.nvme -= bytes;
      return true;
    }
    (tier == TierKind::device ? room_.device : room_.host) -= bytes;
    room_.memory -= bytes;
    return true;
  }

  std::uint64_t left(TierKind tier) const {
    switch (tier) {
      case TierKind::device: return std::min(room_.device, room_.memory);
      case TierKind::host: return std::min(room_.host, room_.memory);
      case TierKind::nvme: return room_.nvme;
    }
    return 0;
  }

 private:
  Room room_;
};

// Chunks of one unit, as many as there is room for in each tier.
bool place_records(const StateShape& shape, std::size_t unit, const Options& options, RoomLeft& room,
                   Placement& placement) {
  const PartSizes sizes(shape, unit, options);
  RecordHomes& homes = placement.records[unit];
  const auto chunks = static_cast<std::uint32_t>(sizes.chunks());
  const bool split = splits_master(options, placement.published[unit]);
  std::uint32_t done = 0;
  for (const TierKind tier : fastest_first) {
    if (!records_may(tier, options)) continue;
    std::uint32_t fit = 0;
    if (tier == TierKind::nvme) {
      std::uint64_t bytes = 0;
      for (; done + fit < chunks; ++fit) {
        const std::uint64_t more = 2 * nvme_record_bytes(sizes.elements_of(done + fit), shape.moment_count, split);
        if (bytes + more > room.left(tier)) break;
        bytes += more;
      }
      room.take(tier, bytes);
    } else {
      const std::uint64_t left = room.left(tier);
      const std::uint64_t whole_bytes = sizes.chunk_count * sizes.element_record_bytes;
      fit =
          static_cast<std::uint32_t>(std::min<std::uint64_t>(chunks - done, whole_bytes == 0 ? 0 : left / whole_bytes));
      const auto bytes_of = [&](std::uint32_t count) { return round_to_page(sizes.record_bytes(done, count)); };
      if (done + fit < chunks && bytes_of(fit + 1) <= left) ++fit;  // the last one is shorter
      while (fit > 0 && bytes_of(fit) > left) --fit;
      if (fit > 0) room.take(tier, bytes_of(fit));
    }
    done += fit;
    (tier == TierKind::device ? homes.device : tier == TierKind::host ? homes.host : homes.nvme) = fit;
  }
  return done == chunks;
}

}  // namespace

sharding::FlatRange state_range(const sharding::FlatLayout& layout, int stage, int rank) {
  return stage == 0 ? sharding::FlatRange{0, layout.trainable().full_count} : layout.shard(Training::trainable, rank);
}

std::size_t nvme_record_bytes(std::size_t element_count, std::size_t moment_count, bool split) {
  return round_to_page(element_count * ((split ? 2 : sizeof(float)) + moment_count * sizeof(float)));
}

PartSizes::PartSizes(const StateShape& shape, std::size_t unit, const Options& options) {
  const sharding::FlatLayout& layout = shape.layouts[unit];
  const sharding::FlatPart& trainable = layout.trainable();
  const std::size_t dtype_bytes = bytes_per_element(options.dtype);
  state_count = state_range(layout, options.stage, 0).count();
  chunk_count = shape.chunk_count;
  element_record_bytes = sizeof(float) * (1 + shape.moment_count);
  published_bytes = options.stage == 3 ? round_to_page(trainable.shard_count * dtype_bytes) +
                                             round_to_page(layout.frozen().shard_count * dtype_bytes)
                                       : layout.whole_count() * dtype_bytes;
  accumulator_bytes = (accumulators_are_whole(options) ? trainable.full_count : trainable.shard_count) * sizeof(float);
}

std::size_t PartSizes::elements_of(std::size_t chunk) const {
  return std::min(chunk_count, state_count - chunk * chunk_count);
}

std::size_t PartSizes::record_bytes(std::size_t first_chunk, std::size_t chunks) const {
  const std::size_t begin = std::min(first_chunk * chunk_count, state_count);
  const std::size_t end = std::min((first_chunk + chunks) * chunk_count, state_count);
  return (end - begin) * element_record_bytes;
}

std::vector<TierKind> activation_homes(const Options& options) {
  if (options.activation_memory_bytes == 0) return {TierKind::device};
  std::vector<TierKind> homes;
  for (const TierKind tier : fastest_first) {
    if (may_lie_in(tier, options.activations, true, options)) homes.push_back(tier);
  }
  return homes;
}

Placement lowest_placement(const StateShape& shape, const Options& options) {
  Placement placement;
  const auto lowest = [&](const auto& may) {
    TierKind found = TierKind::device;
    for (const TierKind tier : fastest_first) {
      if (may(tier, options)) found = tier;
    }
    return found;
  };
  placement.activations = activation_homes(options).back();
  const TierKind record_home = lowest(records_may);
  for (std::size_t unit = 0; unit < shape.layouts.size(); ++unit) {
    placement.published.push_back(lowest(published_may));
    placement.accumulators.push_back(lowest(accumulators_may));
    const auto chunks = static_cast<std::uint32_t>(PartSizes(shape, unit, options).chunks());
    placement.records.push_back({.device = record_home == TierKind::device ? chunks : 0,
                                 .host = record_home == TierKind::host ? chunks : 0,
                                 .nvme = record_home == TierKind::nvme ? chunks : 0});
  }
  return placement;
}

std::optional<Placement> place(const StateShape& shape, const Options& options, Room room) {
  RoomLeft left(room);
  Placement placement;
  const std::size_t unit_count = shape.layouts.size();
  placement.records.resize(unit_count);
  const auto take_first = [&](std::size_t bytes, const auto& may) -> std::optional<TierKind> {
    for (const TierKind tier : fastest_first) {
      if (may(tier, options) && left.take(tier, round_to_page(bytes))) return tier;
    }
    return std::nullopt;
  };
  for (std::size_t unit = 0; unit < unit_count; ++unit) {
    const auto home = take_first(PartSizes(shape, unit, options).published_bytes, published_may);
    if (!home) return std::nullopt;
    placement.published.push_back(*home);
  }
  for (std::size_t unit = 0; unit < unit_count; ++unit) {
    const auto home = take_first(PartSizes(shape, unit, options).accumulator_bytes, accumulators_may);
    if (!home) return std::nullopt;
    placement.accumulators.push_back(*home);
  }
  for (std::size_t unit = 0; unit < unit_count; ++unit) {
    if (!place_records(shape, unit, options, left, placement)) return std::nullopt;
  }
  return placement;
}

}  // namespace strata::engine
