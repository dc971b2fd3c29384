// A unit as the engine holds it: where its bytes are and what is under way with them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <strata/event.h>
#include <strata/unit.h>
#include "engine/placement.h"
#include "sharding/flat_layout.h"

namespace strata::engine {

// Elements that the optimizer treats alike.
struct GroupRun {
  std::size_t begin = 0;  // elements from the start of this rank's state
  std::size_t end = 0;
  Decay decay = Decay::on;
  float lr_factor = 1.0f;
};

struct UnitState {
  std::unordered_map<std::string_view, std::uint32_t> tensor_index;  // by name
  // Pointers are null where the part lies on nvme.
  std::byte* published = nullptr;        // whole (stages 0-2), or the trainable shard (stage 3)
  std::byte* published_shard = nullptr;  // where the update writes: within `published`
  std::byte* frozen = nullptr;           // published values: whole (stages 0-2) or the shard
  float* accumulator = nullptr;          // whole or shard
  float* accumulator_shard = nullptr;    // this rank's slice of it
  float* records = nullptr;              // per chunk on the device: master | moments
  float* host_records = nullptr;         // per chunk in host memory
  RecordHomes record_homes;
  bool published_on_nvme = false;
  bool accumulator_on_nvme = false;
  bool split_master = false;  // of the records on nvme

  // First items of the sealed store, one a chunk: records from the first chunk on nvme on, the others from chunk 0 on.
  std::size_t record_items = 0;
  std::size_t published_items = 0;
  std::size_t frozen_items = 0;  // of the frozen shard, cut alike
  std::size_t accumulator_items = 0;

  double* norm_leaves = nullptr;  // of this rank's shard
  sharding::FlatRange state;      // trainable elements whose state this rank holds
  std::vector<GroupRun> runs;     // cover the state range

  Event updated;         // the last update of master, moments and published_shard
  Event ready;           // stages 0-2: `published` is whole and new
  Event whole_gradient;  // stage 0: the accumulator holds the sum of all slices
  Event gathered;        // stage 3: the copy in the unit's slot
  bool reduced = false;  // gradients were committed since the last step
};

}  // namespace strata::engine
