#include "engine/forecast/step_traffic.h"

namespace strata::engine {
namespace {

double as_double(std::size_t bytes) { return static_cast<double>(bytes); }

ChunkTraffic chunk_traffic(const PartSizes& sizes, const StateShape& state, const Options& options, TierKind record,
                           TierKind published, TierKind accumulator, std::size_t element_count) {
  const std::size_t published_bytes = element_count * bytes_per_element(options.dtype);
  const bool on_disk = record == TierKind::nvme;
  const bool split = on_disk && splits_master(options, published);
  const std::size_t record_bytes =
      split ? element_count * (2 + sizeof(float) * state.moment_count) : element_count * sizes.element_record_bytes;
  ChunkTraffic traffic;
  traffic.count = 1;
  // Read and written: the record, and of a split master its other half; read: the gradient; written: what is published.
  traffic.memory_bytes =
      as_double(2 * record_bytes + (split ? 2 : 1) * published_bytes + element_count * sizeof(float));
  if (split) traffic.split_bytes = as_double(element_count * sizeof(float));
  if (on_disk) {
    const std::size_t moved_bytes = nvme_record_bytes(element_count, state.moment_count, split);
    traffic.load_bytes = traffic.store_bytes = as_double(moved_bytes);
  }
  if (accumulator == TierKind::nvme) traffic.load_bytes += as_double(element_count * sizeof(float));
  if (published == TierKind::nvme) traffic.store_bytes += as_double(published_bytes);
  return traffic;
}

bool alike(const ChunkTraffic& a, const ChunkTraffic& b) {
  return a.memory_bytes == b.memory_bytes && a.split_bytes == b.split_bytes && a.load_bytes == b.load_bytes &&
         a.store_bytes == b.store_bytes;
}

void add_chunks(UnitTraffic& traffic, const StateShape& state, const Placement& placement, std::size_t unit,
                const Options& options) {
  const PartSizes sizes(state, unit, options);
  for (std::size_t chunk = 0; chunk < sizes.chunks(); ++chunk) {
    const ChunkTraffic more =
        chunk_traffic(sizes, state, options, placement.records[unit].of(chunk), placement.published[unit],
                      placement.accumulators[unit], sizes.elements_of(chunk));
    if (!traffic.chunks.empty() && alike(traffic.chunks.back(), more)) {
      ++traffic.chunks.back().count;
    } else {
      traffic.chunks.push_back(more);
    }
  }
}

// Between ranks: what this one reads of its peers' memory and its own, and what it writes.
void add_exchange(UnitTraffic& traffic, const sharding::FlatLayout& layout, const Options& options, int world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  const std::size_t dtype_bytes = bytes_per_element(options.dtype), grad_bytes = bytes_per_element(options.grad_dtype);
  const sharding::FlatPart& trainable = layout.trainable();
  const std::size_t shard_count = trainable.shard_count, full_count = trainable.full_count;
  if (full_count > 0) {
    if (options.reduce == ReducePolicy::step) {
      traffic.commit_bytes = as_double(full_count * (grad_bytes + 2 * sizeof(float)));
      traffic.step_bytes = as_double(shard_count * sizeof(float) * (ranks + 1));
    } else {
      traffic.commit_bytes = as_double(shard_count * (grad_bytes * ranks + sizeof(float)));
    }
    if (options.stage == 0) traffic.step_bytes += as_double(2 * full_count * sizeof(float));
    if (options.stage == 1 || options.stage == 2) traffic.publish_bytes = as_double(2 * full_count * dtype_bytes);
  }
  if (options.stage == 3) {
    traffic.gather_bytes = as_double(2 * (shard_count + layout.frozen().shard_count) * dtype_bytes);
  }
}

}  // namespace

StepTraffic step_traffic(std::span<const Unit> units, const StateShape& state, const Placement& placement,
                         const TrafficShape& shape, const Options& options) {
  StepTraffic traffic;
  traffic.micro_batch_count = shape.micro_batch_count;
  traffic.prefetch = shape.prefetch;
  traffic.gathered_count = options.leases + shape.prefetch;
  traffic.slot_count = shape.slot_count;
  for (std::size_t i = 0; i < units.size(); ++i) {
    UnitTraffic& unit = traffic.units.emplace_back();
    unit.forward_s = units[i].forward_s;
    unit.backward_s = units[i].backward_s;
    add_exchange(unit, state.layouts[i], options, shape.world_size);
    const PartSizes sizes(state, i, options);
    if (placement.published[i] == TierKind::nvme) unit.gather_load_bytes = as_double(sizes.published_bytes);
    if (placement.accumulators[i] == TierKind::nvme) {
      unit.commit_load_bytes = unit.commit_store_bytes = as_double(sizes.accumulator_bytes);
    }
    add_chunks(unit, state, placement, i, options);
  }
  return traffic;
}

}  // namespace strata::engine
