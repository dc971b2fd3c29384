// One rank's end of the control area: headers, barriers, deadlines and the abort of a job.
//
// A call is: post the header and wait for the peers', compare, work, arrive and wait for the peers. A wait ends when
// all peers are there, or with Error{peer_lost}: somebody aborted or died, left, has been silent for silence_s, or did
// not come within call_s. Whoever finds such a cause makes it the job's, and the first cause is what every rank throws.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <strata/communicator.h>
#include <strata/error.h>

#include "sharding/exchange_arena.h"
#include "sharding/transport/shm_control.h"

namespace strata::sharding {

class ShmChannel {
 public:
  // Takes and maps the control area. Throws out_of_budget.
  ShmChannel(std::shared_ptr<ExchangeSegment> segment, int rank, int size, const Deadlines& deadlines);
  ShmChannel(const ShmChannel&) = delete;
  ShmChannel& operator=(const ShmChannel&) = delete;
  ~ShmChannel();  // leaves, which peers that wait for this rank see

  int rank() const { return rank_; }
  int size() const { return size_; }

  // Posts this rank's header (its sequence is set here) and returns when all ranks have posted equal ones. Throws the
  // failure of before, peer_lost, or mismatch naming both calls; then nothing was done.
  void open_call(CallHeader header);
  const CallHeader& header_of(int rank) const;  // of the call in progress

  // This rank's result of the call in progress, which peers read after the next arrive().
  void set_result(int result) { ranks_[rank_].results[sequence_ % header_ring_count] = result; }
  int result_of(int rank) const { return ranks_[rank].results[sequence_ % header_ring_count]; }

  // A barrier within a call: returns when all ranks have made it as often.
  void arrive();

  RankControl& control(int rank) const { return ranks_[rank]; }

  [[noreturn]] void fail(ErrorCode code, const std::string& text);  // and every later call throws the same

  // From any thread. The first cause of the job wins. `rank` is whom it is about.
  void abort(int rank, std::string_view cause) noexcept;
  void beat() noexcept;
  bool has_left(int rank) const { return ranks_[rank].left.load(std::memory_order_acquire) != 0; }
  void set_deadlines(const Deadlines& deadlines);
  double peer_wait_s() const;  // so far, a wait in progress included; from any thread

 private:
  using Word = std::atomic<std::uint64_t> RankControl::*;
  struct Wait {
    Word word;
    std::uint64_t goal;
    std::int64_t begin_ns;
  };

  int first_missing(Word word, std::uint64_t goal) const;  // -1: all are there
  void await(Word word, std::uint64_t goal);
  bool spin(Word word, std::uint64_t goal);
  void sleep_until_there(const Wait& wait);
  void check_peers(const Wait& wait);
  void ring();
  void compare_headers();
  [[noreturn]] void lose(int rank, const std::string& cause);
  [[noreturn]] void throw_abort();

  const int rank_;
  const int size_;
  std::shared_ptr<std::byte> memory_;
  JobControl* job_ = nullptr;
  RankControl* ranks_ = nullptr;
  std::uint64_t sequence_ = 0;
  std::uint64_t arrivals_ = 0;
  std::int64_t spin_ns_ = 0;
  std::int64_t spin_ns_max_ = 0;
  std::optional<Error> failure_;
  std::atomic<std::int64_t> awake_since_ns_{0};  // silence of peers counts from here at the earliest
  std::atomic<std::int64_t> silence_ns_;
  std::atomic<std::int64_t> call_ns_;
  std::atomic<std::int64_t> peer_wait_ns_{0};  // the sum; during a wait the sum less the clock at its start, negative
};

// "all_gather (call 12: 4096 x bf16, unit 3, in gather)", for messages.
std::string describe(const CallHeader& header);

}  // namespace strata::sharding
