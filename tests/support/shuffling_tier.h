// A tier in memory whose loads and stores are done by a thread of its own, late and in a seeded random order, and fail
// or lie where a test asks for it.
#pragma once

#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <utility>
#include <vector>

#include <strata/detail/event_state.h>
#include <strata/error.h>
#include <strata/tier.h>

namespace strata::test {

class ShufflingTier final : public Tier {
 public:
  ShufflingTier(std::size_t capacity_bytes, unsigned seed) : bytes_(capacity_bytes), random_(seed) {
    thread_ = std::thread([this] { run(); });
  }
  ~ShufflingTier() override {
    {
      std::lock_guard lock(mutex_);
      ending_ = true;
      open_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  TierKind kind() const override { return TierKind::nvme; }
  std::string name() const override { return "shuffling"; }
  std::uint64_t capacity_bytes() const override { return bytes_.size(); }
  std::uint64_t reserved_bytes() const override { return reserved_bytes_; }
  std::size_t alignment_bytes() const override { return 4096; }
  Extent reserve(std::uint64_t size_bytes) override {
    if (reserved_bytes_ + size_bytes > bytes_.size()) throw Error(ErrorCode::out_of_budget, "the tier is full");
    return {std::exchange(reserved_bytes_, reserved_bytes_ + size_bytes), size_bytes};
  }
  std::span<std::byte> memory(const Extent&) const override { return {}; }

  Event load(const Extent& extent, std::uint64_t first_byte, std::span<std::byte> target) override {
    return enqueue({extent.offset_bytes + first_byte, target.data(), nullptr, target.size(), nullptr});
  }
  Event store(const Extent& extent, std::uint64_t first_byte, std::span<const std::byte> source) override {
    return enqueue({extent.offset_bytes + first_byte, nullptr, source.data(), source.size(), nullptr});
  }

  TierCounters counters() const override {
    std::lock_guard lock(mutex_);
    return counters_;
  }

  // While closed, nothing is done.
  void close() {
    std::lock_guard lock(mutex_);
    open_ = false;
  }
  void open() {
    {
      std::lock_guard lock(mutex_);
      open_ = true;
    }
    changed_.notify_all();
  }

  void wait_until_idle() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return pending_.empty() && !acting_; });
  }

  // The next `count` acts of a kind fail.
  void fail_loads(int count) {
    std::lock_guard lock(mutex_);
    failing_loads_ = count;
  }
  void fail_stores(int count) {
    std::lock_guard lock(mutex_);
    failing_stores_ = count;
  }

  // Bytes in place. Only while nothing is under way.
  std::span<std::byte> contents() { return bytes_; }

 private:
  struct Pending {
    std::uint64_t offset_bytes;
    std::byte* target;
    const std::byte* source;
    std::size_t size_bytes;
    std::shared_ptr<detail::EventState> state;
  };

  Event enqueue(Pending act) {
    act.state = std::make_shared<detail::EventState>();
    Event event(act.state, 1);
    {
      std::lock_guard lock(mutex_);
      (act.target ? counters_.loaded_bytes : counters_.stored_bytes) += act.size_bytes;
      pending_.push_back(std::move(act));
    }
    changed_.notify_all();
    return event;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [&] { return (open_ && !pending_.empty()) || ending_; });
      if (pending_.empty()) return;
      std::swap(pending_[random_() % pending_.size()], pending_.back());
      Pending act = std::move(pending_.back());
      pending_.pop_back();
      int& failing = act.target ? failing_loads_ : failing_stores_;
      const bool fails = failing > 0;
      if (fails) --failing;
      acting_ = true;
      lock.unlock();
      if (fails) {
        act.state->fail(Error(ErrorCode::io, act.target ? "this load fails" : "this store fails"));
      } else {
        if (act.target) std::memcpy(act.target, bytes_.data() + act.offset_bytes, act.size_bytes);
        if (act.source) std::memcpy(bytes_.data() + act.offset_bytes, act.source, act.size_bytes);
        act.state->complete(1);
      }
      lock.lock();
      acting_ = false;
      changed_.notify_all();
    }
  }

  std::vector<std::byte> bytes_;
  std::uint64_t reserved_bytes_ = 0;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::minstd_rand random_;
  std::vector<Pending> pending_;
  TierCounters counters_;
  int failing_loads_ = 0, failing_stores_ = 0;
  bool open_ = true, acting_ = false, ending_ = false;
  std::thread thread_;
};

}  // namespace strata::test
