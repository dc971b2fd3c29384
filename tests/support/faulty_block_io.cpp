#include "support/faulty_block_io.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstring>
#include <mutex>

#include <strata/detail/assert.h>

namespace strata::test {

using offload::Block;
using offload::BlockIo;
using offload::BlockResult;
using offload::IoAct;

FaultRates fault_rates_of(std::uint64_t seed) {
  std::mt19937_64 random(seed * 2 + 1);
  const auto up_to = [&](double most) { return std::uniform_real_distribution<>(0, most)(random); };
  FaultRates rates;
  rates.short_count = up_to(0.5);
  rates.passing = up_to(0.4);
  rates.delay = up_to(0.6);
  if (seed % 2 == 1) {
    rates.hard = up_to(0.02);
    rates.flip = up_to(0.05);
  }
  return rates;
}

FaultyBlockIo::FaultyBlockIo(std::uint64_t seed, const FaultRates& rates, std::unique_ptr<BlockIo> inner,
                             std::shared_ptr<FaultLog> log)
    : random_(seed), rates_(rates), inner_(std::move(inner)), log_(std::move(log)) {}

void FaultyBlockIo::submit(const Block& block) {
  const Place place = {block.file, block.offset};
  if (!is_bad_.contains(place)) is_bad_[place] = happens(rates_.hard);
  if (is_bad_[place]) {
    ++log_->hard_count;
    return hold({block.token, -EIO});
  }
  int& in_a_row = passing_in_a_row_[place];
  if (in_a_row < 2 && happens(rates_.passing)) {
    static constexpr std::array<int, 4> causes = {EAGAIN, EINTR, EBUSY, ECANCELED};
    ++in_a_row;
    ++log_->passing_count;
    return hold({block.token, -causes[below(causes.size())]});
  }
  under_way_[block.token] = block;
  inner_->submit(block);
}

std::size_t FaultyBlockIo::reap(std::span<BlockResult> results, std::chrono::milliseconds time) {
  std::array<BlockResult, 16> inner_results;
  const auto inner_time = held_.empty() ? time : std::chrono::milliseconds(0);
  const std::size_t inner_count = inner_->reap(inner_results, inner_time);
  for (std::size_t i = 0; i < inner_count; ++i) {
    const auto [token, result] = inner_results[i];
    hold({token, spoil(under_way_.at(token), result)});
    under_way_.erase(token);
  }
  std::shuffle(held_.begin(), held_.end(), random_);
  std::size_t count = 0;
  std::erase_if(held_, [&](Held& held) {
    if (held.reaps_left-- > 0 || count == results.size()) return false;
    results[count++] = held.result;
    return true;
  });
  return count;
}

std::int64_t FaultyBlockIo::spoil(const Block& block, std::int64_t result) {
  int& in_a_row = passing_in_a_row_[{block.file, block.offset}];
  if (result > 1 && in_a_row < 2 && happens(rates_.short_count)) {
    const std::uint64_t kept = 1 + below(static_cast<std::uint64_t>(result) - 1);
    ++log_->short_count;
    if (kept < 4096) ++in_a_row;  // no progress for a disk that moves whole pages
    // Nobody may count on what lies beyond.
    if (block.act == IoAct::read) std::memset(block.address + kept, 0xA5, block.size_bytes - kept);
    return static_cast<std::int64_t>(kept);
  }
  in_a_row = 0;
  if (block.act == IoAct::read && result > 0 && happens(rates_.flip)) {
    ++log_->flip_count;
    block.address[below(static_cast<std::uint64_t>(result))] ^= std::byte{static_cast<unsigned char>(1 << below(8))};
  }
  return result;
}

void FaultyBlockIo::hold(const BlockResult& result) {
  int reaps = 0;
  if (happens(rates_.delay)) {
    ++log_->delay_count;
    reaps = static_cast<int>(1 + below(8));
  }
  held_.push_back({result, reaps});
}

namespace {

class MemoryIo final : public BlockIo {
 public:
  MemoryIo(const offload::BlockIoSetup& setup, std::size_t file_bytes)
      : files_(setup.fds.size(), std::vector<std::byte>(file_bytes)) {}

  void submit(const Block& block) override {
    std::vector<std::byte>& file = files_.at(block.file);
    STRATA_ASSERT(block.offset + block.size_bytes <= file.size());
    if (block.act == IoAct::read) {
      std::memcpy(block.address, file.data() + block.offset, block.size_bytes);
    } else {
      std::memcpy(file.data() + block.offset, block.address, block.size_bytes);
    }
    done_.push_back({block.token, block.size_bytes});
  }

  std::size_t reap(std::span<BlockResult> results, std::chrono::milliseconds time) override {
    if (done_.empty()) {
      std::unique_lock lock(mutex_);
      if (time.count() > 0) changed_.wait_for(lock, time, [&] { return woken_; });
      woken_ = false;
      return 0;
    }
    const std::size_t count = std::min(results.size(), done_.size());
    std::copy_n(done_.begin(), count, results.begin());
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }

  void wake() override {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

  std::string name() const override { return "memory"; }

 private:
  std::vector<std::vector<std::byte>> files_;
  std::vector<BlockResult> done_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool woken_ = false;
};

}  // namespace

std::unique_ptr<BlockIo> make_memory_io(const offload::BlockIoSetup& setup, std::size_t file_bytes) {
  return std::make_unique<MemoryIo>(setup, file_bytes);
}

}  // namespace strata::test
