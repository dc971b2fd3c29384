// A disk that does what disks do to those who do not look: the faults of a seed, the same for the same calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "offload/block_io.h"

namespace strata::test {

// Chances, from 0 to 1, of each block's attempt.
struct FaultRates {
  double short_count = 0;  // fewer bytes than asked for, any number of them
  double passing = 0;      // EAGAIN, EINTR, EBUSY or ECANCELED, never more than twice in a row for one block
  double delay = 0;        // held back, while later ones overtake it
  double hard = 0;         // EIO: of this place for ever
  double flip = 0;         // one bit of what was read is wrong, silently
};

// Rates of all kinds that differ with the seed; about a half of the seeds have no hard faults and no flips.
FaultRates fault_rates_of(std::uint64_t seed);

// What was done, for the test to know what it may expect. Threading: any.
struct FaultLog {
  std::atomic<std::uint64_t> short_count{0}, passing_count{0}, delay_count{0}, hard_count{0}, flip_count{0};
};

class FaultyBlockIo final : public offload::BlockIo {
 public:
  FaultyBlockIo(std::uint64_t seed, const FaultRates& rates, std::unique_ptr<offload::BlockIo> inner,
                std::shared_ptr<FaultLog> log);

  void submit(const offload::Block& block) override;
  std::size_t reap(std::span<offload::BlockResult> results, std::chrono::milliseconds time) override;
  void wake() override { inner_->wake(); }
  std::string name() const override { return "faulty " + inner_->name(); }

 private:
  struct Held {
    offload::BlockResult result;
    int reaps_left = 0;
  };
  using Place = std::pair<std::uint32_t, std::uint64_t>;  // file, offset

  bool happens(double rate) { return std::uniform_real_distribution<>(0, 1)(random_) < rate; }
  std::uint64_t below(std::uint64_t bound) { return random_() % bound; }
  std::int64_t spoil(const offload::Block& block, std::int64_t result);
  void hold(const offload::BlockResult& result);

  std::mt19937_64 random_;
  const FaultRates rates_;
  const std::unique_ptr<offload::BlockIo> inner_;
  const std::shared_ptr<FaultLog> log_;
  std::map<std::uint32_t, offload::Block> under_way_;  // by token
  std::map<Place, int> passing_in_a_row_;
  std::map<Place, bool> is_bad_;
  std::vector<Held> held_;
};

// A disk in memory: each block is done at once, and seen by the next reap. REQUIRES files of `file_bytes` at most.
std::unique_ptr<offload::BlockIo> make_memory_io(const offload::BlockIoSetup& setup, std::size_t file_bytes);

}  // namespace strata::test
