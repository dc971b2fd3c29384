// What the pipelines of one engine share.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <strata/communicator.h>
#include <strata/engine.h>
#include "engine/agreement.h"
#include "engine/lane.h"
#include "engine/memory_needs.h"
#include "engine/unit_state.h"
#include "engine/wait_meter.h"
#include "offload/private_memory.h"
#include "offload/sealed_store.h"
#include "sharding/flat_layout.h"

namespace strata::engine {

// Memory of the engine, taken once, as the plan says.
struct EngineMemory {
  offload::PrivateMemory published_private, grad_slots_private, accumulators_private, records, norm_leaves,
      agreement_own, host_published, host_accumulators, host_records, io;
  ExchangeBlock published_exchange, grad_slots_exchange, accumulators_exchange, param_slots, agreement_all;
  std::unique_ptr<Tier> nvme;  // null when nothing lies there
  std::unique_ptr<offload::SealedStore> sealed;
  std::vector<Event> item_stored;     // by item of `sealed`: its last store
  std::vector<std::string> warnings;  // what the disk had to do without
  std::uint64_t device_bytes = 0;     // counted as it is taken
  std::uint64_t host_bytes = 0;
  std::uint64_t nvme_bytes = 0;

  std::byte* published() const;
  std::byte* grad_slots() const;
  std::byte* accumulators() const;
};

struct EngineContext {
  std::vector<Unit> units;
  std::vector<sharding::FlatLayout> layouts;
  std::vector<UnitState> states;
  std::shared_ptr<const Optimizer> optimizer;
  Communicator* communicator = nullptr;
  Options options;
  Plan plan;
  MemoryNeeds needs;
  Placement placement;
  EngineMemory memory;
  std::uint64_t caller_hash = 0;        // over the caller's engine calls so far
  std::string_view last_act = "start";  // the caller's last call, for messages
  std::size_t last_unit = 0;
  std::unique_ptr<Lane> comm_lane;  // declared behind what its acts use
  std::unique_ptr<Lane> update_lane;

  // The caller, since the last step; parts of its other waits.
  double peer_waited_s = 0;  // for peers that had not come
  double nvme_waited_s = 0;  // while the lane that it waited for waited for the disk

  WaitMeter update_disk_waits;  // of the update lane, or of a pass between steps
  WaitMeter comm_disk_waits;    // of the communication lane

  // For the communication lane: waits for the disk, staying alive to peers.
  void wait_for_disk(const Event& event);

  // The caller waits for the event; seconds, 0 when it was ready.
  double timed_wait(const Event& event);

  std::size_t lane_capacity() const {
    return 2 * units.size() + 2 * (needs.param_slots.sizes.size() + needs.grad_slots.sizes.size()) + 64;
  }

  // Stage 3: where the frozen shard lies behind the trainable one.
  std::size_t frozen_shard_offset_bytes(std::size_t unit) const {
    return round_to_page(layouts[unit].trainable().shard_count * bytes_per_element(options.dtype));
  }

  int rank() const { return communicator->rank(); }
  int world_size() const { return communicator->size(); }

  // Takes over what another context of the same units, optimizer and ranks was started with: options, plan, memory.
  // The units stay where they are. REQUIRES of both that no lane runs. To be followed by index_tensors().
  void adopt(EngineContext&& other);

  // The caller makes a call that leads to collectives: ranks whose calls differ will find out at the next header.
  void note_call(std::string_view act, std::size_t unit);

  CallTag tag(std::string_view act, std::size_t unit) const {
    return {static_cast<std::uint32_t>(unit), caller_hash, act};
  }
};

// Mixes a value into a running hash.
constexpr std::uint64_t mix_hash(std::uint64_t hash, std::uint64_t value) {
  hash ^= value + 0x9E3779B97F4A7C15ull + (hash << 6) + (hash >> 2);
  hash ^= hash >> 32;
  hash *= 0xD6E8FEB86659FD93ull;
  return hash ^ (hash >> 29);
}

}  // namespace strata::engine
