// Published shards that lie on nvme, on their way to a gather: each into one of a few staging buffers, loaded ahead in
// the order of the gathers as far as there are buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include <strata/detail/thread_annotations.h>
#include <strata/event.h>
#include "engine/context.h"

namespace strata::engine {

struct LoadedShard {
  const std::byte* trainable = nullptr;
  const std::byte* frozen = nullptr;
};

// Threading: want() by the caller's thread; take() and give_back() by the communication lane, or by the caller's while
// that is drained; pump() by any.
class ShardLoader {
 public:
  explicit ShardLoader(EngineContext& context);

  // The unit's shard will be taken, after all that were wanted before.
  void want(std::size_t unit);

  // The shard that was wanted next; waits for it, staying alive to peers. Throws io and corruption.
  LoadedShard take();
  void give_back();  // what take() gave is no longer needed

  // Begins what loads it can: those whose last update is stored, while buffers are free.
  void pump();

 private:
  struct Wish {
    std::size_t unit = 0;
    Event updated;
  };
  struct Buffer {
    std::byte* memory = nullptr;
    std::vector<Event> loads;  // by chunk: trainable, then frozen
  };

  std::size_t trainable_items(std::size_t unit) const;
  std::size_t frozen_items(std::size_t unit) const;
  bool stored(std::size_t unit) const;
  void load(std::size_t unit, Buffer& buffer);
  void verify(std::size_t unit, const Buffer& buffer) const;

  // Calls visit(item, byte in the buffer) for all items of the unit's shard.
  template <typename Visit>
  void each_item(std::size_t unit, const Visit& visit) const;

  EngineContext& context_;
  std::mutex mutex_;
  std::vector<Buffer> buffers_;
  std::vector<Wish> wishes_ STRATA_GUARDED_BY(mutex_);  // a ring
  std::uint64_t wanted_ STRATA_GUARDED_BY(mutex_) = 0;
  std::uint64_t loading_ STRATA_GUARDED_BY(mutex_) = 0;
  std::uint64_t taken_ STRATA_GUARDED_BY(mutex_) = 0;
  std::uint64_t given_back_ STRATA_GUARDED_BY(mutex_) = 0;
};

}  // namespace strata::engine
