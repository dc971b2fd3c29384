#include "sharding/transport/shm_channel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include <strata/detail/host_share.h>

#include "sharding/transport/futex.h"

namespace strata::sharding {

namespace {

constexpr std::int64_t spin_ns_most = 50'000;
constexpr std::int64_t spin_ns_least = 1'000;
constexpr int checks_per_clock_reading = 32;

std::int64_t to_ns(double seconds) { return static_cast<std::int64_t>(seconds * 1e9); }
double to_s(std::int64_t ns) { return 1e-9 * static_cast<double>(ns); }

}  // namespace

ShmChannel::ShmChannel(std::shared_ptr<ExchangeSegment> segment, int rank, int size, const Deadlines& deadlines)
    : rank_(rank), size_(size), silence_ns_(to_ns(deadlines.silence_s)), call_ns_(to_ns(deadlines.call_s)) {
  const std::size_t bytes = control_bytes(size);
  // Every rank takes the whole area: a page that a late peer has yet to take must not be missing when it is read.
  if (const int error = segment->reserve(0, bytes, [] {}); error != 0) {
    throw Error(ErrorCode::out_of_budget,
                fmt::format("rank {}: control area of {} bytes: {}", rank, bytes, std::strerror(error)));
  }
  memory_ = segment->map(0, bytes);
  if (memory_ == nullptr) {
    throw Error(ErrorCode::out_of_budget, fmt::format("rank {}: no room to map {} bytes", rank, bytes));
  }
  job_ = reinterpret_cast<JobControl*>(memory_.get());
  ranks_ = reinterpret_cast<RankControl*>(memory_.get() + sizeof(JobControl));

  // With more ranks than cores the peer that is waited for may need this very core.
  const bool cores_for_all = detail::usable_core_count() >= static_cast<std::uint32_t>(size);
  spin_ns_max_ = cores_for_all ? spin_ns_most : 0;
  spin_ns_ = spin_ns_max_;
  beat();
}

ShmChannel::~ShmChannel() {
  ranks_[rank_].left.store(1, std::memory_order_release);
  ring();
}

void ShmChannel::open_call(CallHeader header) {
  if (failure_) throw Error(*failure_);
  if (job_->abort_state.load(std::memory_order_acquire) != 0) throw_abort();
  RankControl& own = ranks_[rank_];
  const std::int64_t now_ns = monotonic_ns();
  beat();
  header.sequence = ++sequence_;
  own.headers[sequence_ % header_ring_count] = header;
  own.posted.store(sequence_, std::memory_order_release);
  if (size_ == 1) return;
  ring();
  const std::int64_t waited_ns = peer_wait_ns_.load(std::memory_order_relaxed);
  peer_wait_ns_.store(waited_ns - now_ns, std::memory_order_relaxed);
  await(&RankControl::posted, sequence_);
  peer_wait_ns_.store(waited_ns + monotonic_ns() - now_ns, std::memory_order_relaxed);
  compare_headers();
}

const CallHeader& ShmChannel::header_of(int rank) const { return ranks_[rank].headers[sequence_ % header_ring_count]; }

void ShmChannel::arrive() {
  ranks_[rank_].arrived.store(++arrivals_, std::memory_order_release);
  if (size_ == 1) return;
  ring();
  await(&RankControl::arrived, arrivals_);
}

int ShmChannel::first_missing(Word word, std::uint64_t goal) const {
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_ && (ranks_[rank].*word).load(std::memory_order_acquire) < goal) return rank;
  }
  return -1;
}

void ShmChannel::await(Word word, std::uint64_t goal) {
  if (first_missing(word, goal) < 0 || spin(word, goal)) return;
  sleep_until_there({word, goal, monotonic_ns()});
}

// Spinning pays while the peers run and come soon. Where it was in vain the next one is shorter, so that a process with
// other busy threads loses no core to it.
bool ShmChannel::spin(Word word, std::uint64_t goal) {
  if (spin_ns_max_ == 0) return false;
  const std::int64_t end_ns = monotonic_ns() + spin_ns_;
  do {
    for (int i = 0; i < checks_per_clock_reading; ++i) {
      if (first_missing(word, goal) < 0) {
        spin_ns_ = std::min(2 * spin_ns_, spin_ns_max_);
        return true;
      }
      pause_briefly();
    }
  } while (monotonic_ns() < end_ns);
  spin_ns_ = std::max(spin_ns_ / 2, spin_ns_least);
  return false;
}

void ShmChannel::sleep_until_there(const Wait& wait) {
  for (;;) {
    // Looked at before the words: who aborts after comparing has seen this rank's peers post, and then so does this
    // rank.
    const bool aborted = job_->abort_state.load(std::memory_order_acquire) != 0;
    std::uint32_t bell = job_->bell.load(std::memory_order_acquire);
    const int missing = first_missing(wait.word, wait.goal);
    if (missing < 0) return;
    if (aborted) throw_abort();
    beat();
    check_peers(wait);
    // Sleeps only if nobody has rung since `bell` was read; whoever rings later sees bit 0 and wakes.
    if ((bell & 1) == 0 && !job_->bell.compare_exchange_strong(bell, bell | 1, std::memory_order_acq_rel)) continue;
    const std::int64_t least_ns =
        std::min(silence_ns_.load(std::memory_order_relaxed), call_ns_.load(std::memory_order_relaxed));
    const std::int64_t slice_ns = std::clamp<std::int64_t>(least_ns / 8, 1'000'000, 1'000'000'000);
    futex_wait(job_->bell, bell | 1, slice_ns);
  }
}

void ShmChannel::check_peers(const Wait& wait) {
  const std::int64_t now_ns = monotonic_ns();
  const std::int64_t silence_ns = silence_ns_.load(std::memory_order_relaxed);
  const std::int64_t call_ns = call_ns_.load(std::memory_order_relaxed);
  const std::int64_t awake_since_ns = awake_since_ns_.load(std::memory_order_acquire);
  const auto own_call = [this] { return describe(header_of(rank_)); };
  for (int rank = 0; rank < size_; ++rank) {
    const RankControl& peer = ranks_[rank];
    const bool left = has_left(rank);  // before the word: a rank leaves after its last arrival
    if (rank == rank_ || (peer.*wait.word).load(std::memory_order_acquire) >= wait.goal) continue;
    if (left) lose(rank, fmt::format("rank {} has left, while rank {} waits for it in {}", rank, rank_, own_call()));
    const std::int64_t beat_ns = peer.beat_ns.load(std::memory_order_acquire);
    const std::int64_t heard_ns = std::max(beat_ns, awake_since_ns);
    if (now_ns - heard_ns > silence_ns) {
      lose(rank, fmt::format("rank {} has given no sign of life for {:.1f} s, while rank {} waits for it in {}", rank,
                             to_s(now_ns - heard_ns), rank_, own_call()));
    }
    if (now_ns - wait.begin_ns > call_ns) {
      const std::uint64_t posted = peer.posted.load(std::memory_order_acquire);
      const CallHeader& last = peer.headers[posted % header_ring_count];
      lose(rank, fmt::format("rank {} lives but did not come to {} of rank {} within {:.1f} s; its last call: {}", rank,
                             own_call(), rank_, to_s(call_ns), posted == 0 ? "none" : describe(last)));
    }
  }
}

void ShmChannel::ring() {
  if ((job_->bell.fetch_add(2, std::memory_order_acq_rel) & 1) == 0) return;
  job_->bell.fetch_and(~std::uint32_t{1}, std::memory_order_acq_rel);
  futex_wake_all(job_->bell);
}

void ShmChannel::compare_headers() {
  const CallHeader& first = header_of(0);
  const auto differ = [&](const CallHeader& other) -> std::string_view {
    if (other.operation != first.operation) return "operation";
    if (other.sequence != first.sequence) return "sequence";
    if (other.dtype != first.dtype) return "dtype";
    if (other.count != first.count) return "count";
    if (other.unit != first.unit) return "unit";
    if (other.reduce_dtype != first.reduce_dtype) return "reduce dtype";
    if (other.sharing != first.sharing) return "sharing";
    if (other.place != first.place) return "place of the buffer";
    if (other.caller_hash != first.caller_hash) return "sequence of calls so far";
    return {};
  };
  for (int rank = 1; rank < size_; ++rank) {
    const CallHeader& other = header_of(rank);
    const std::string_view what = differ(other);
    if (what.empty()) continue;
    fail(ErrorCode::mismatch, fmt::format("ranks disagree in {}: rank 0 makes {}, rank {} makes {}", what,
                                          describe(first), rank, describe(other)));
  }
}

void ShmChannel::fail(ErrorCode code, const std::string& text) {
  failure_.emplace(code, text);
  throw Error(*failure_);
}

void ShmChannel::lose(int rank, const std::string& cause) {
  abort(rank, cause);
  throw_abort();
}

void ShmChannel::throw_abort() {
  std::uint32_t state = job_->abort_state.load(std::memory_order_acquire);
  // The writer needs microseconds; one that has died meanwhile never ends.
  for (const std::int64_t end_ns = monotonic_ns() + 20'000'000; state % 2 == 1 && monotonic_ns() < end_ns;) {
    pause_briefly();
    state = job_->abort_state.load(std::memory_order_acquire);
  }
  if (state % 2 == 1)
    fail(ErrorCode::peer_lost, fmt::format("rank {} ended while it reported a failure", (state - 1) / 2));
  const auto& text = job_->abort_text;
  fail(ErrorCode::peer_lost, std::string(text.data(), strnlen(text.data(), text.size())));
}

void ShmChannel::abort(int rank, std::string_view cause) noexcept {
  std::uint32_t state = 0;
  const auto writing = 2 * static_cast<std::uint32_t>(rank) + 1;
  if (job_->abort_state.compare_exchange_strong(state, writing, std::memory_order_acq_rel)) {
    const std::size_t length = std::min(cause.size(), abort_text_bytes - 1);
    std::transform(cause.begin(), cause.begin() + static_cast<std::ptrdiff_t>(length), job_->abort_text.begin(),
                   [](char c) { return c == '\n' || c == '\r' || c == '\0' ? ' ' : c; });
    job_->abort_state.store(writing + 1, std::memory_order_release);
  }
  ring();
}

// A rank that was silent itself (a long computation, a stopped job) cannot tell who else fell silent meanwhile: from
// here on it counts anew.
void ShmChannel::beat() noexcept {
  std::atomic<std::int64_t>& own_ns = ranks_[rank_].beat_ns;
  const std::int64_t now_ns = monotonic_ns();
  const bool was_silent =
      now_ns - own_ns.load(std::memory_order_acquire) > silence_ns_.load(std::memory_order_relaxed) / 2;
  if (was_silent) awake_since_ns_.store(now_ns, std::memory_order_release);
  own_ns.store(now_ns, std::memory_order_release);
}

double ShmChannel::peer_wait_s() const {
  const std::int64_t ns = peer_wait_ns_.load(std::memory_order_relaxed);
  return to_s(ns < 0 ? ns + monotonic_ns() : ns);
}

void ShmChannel::set_deadlines(const Deadlines& deadlines) {
  silence_ns_.store(to_ns(deadlines.silence_s), std::memory_order_relaxed);
  call_ns_.store(to_ns(deadlines.call_s), std::memory_order_relaxed);
}

std::string describe(const CallHeader& header) {
  static constexpr const char* names[] = {"?",          "allocate", "all_gather", "reduce_scatter",
                                          "all_reduce", "barrier",  "release"};
  const auto operation = static_cast<std::size_t>(header.operation);
  const std::string_view act(header.act.data(), strnlen(header.act.data(), header.act.size()));
  std::string text = fmt::format("{} (call {}", operation < std::size(names) ? names[operation] : "?", header.sequence);
  if (header.operation == Operation::allocate || header.operation == Operation::release) {
    text += fmt::format(": {} bytes, {}", header.count, to_string(header.sharing));
  } else if (header.operation != Operation::barrier) {
    text += fmt::format(": {} x {}", header.count, to_string(header.dtype));
    if (header.operation == Operation::reduce_scatter)
      text += fmt::format(" reduced in {}", to_string(header.reduce_dtype));
  }
  if (header.unit != no_unit) text += fmt::format(", unit {}", header.unit);
  return text + fmt::format(", in '{}', caller {:016x})", act, header.caller_hash);
}

}  // namespace strata::sharding
