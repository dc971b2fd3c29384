#include "sharding/host_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <strata/detail/default_mxcsr.h>
#include <strata/error.h>

#include "sharding/collective_arguments.h"
#include "sharding/joined_ranks.h"
#include "sharding/stream_copy.h"

namespace strata::sharding {

namespace {

CallHeader header_for(Operation operation, std::size_t count, Dtype dtype, const CallTag& tag) {
  CallHeader header;
  header.operation = operation;
  header.count = count;
  header.dtype = dtype;
  header.unit = tag.unit;
  header.caller_hash = tag.caller_hash;
  std::copy_n(tag.act.begin(), std::min(tag.act.size(), header.act.size()), header.act.begin());
  return header;
}

}  // namespace

HostCommunicator::HostCommunicator(std::shared_ptr<ExchangeSegment> segment, int rank, int size,
                                   const Deadlines& deadlines, PeerProcesses peers)
    : channel_(segment, rank, size, deadlines),
      arena_(segment, rank, size, control_bytes(size)),
      peer_pids_(std::move(peers.pids)),
      door_(std::move(peers.door)),
      death_watch_(std::move(peers.pidfds), [this](int peer) {
        if (channel_.has_left(peer)) return;
        channel_.abort(peer,
                       fmt::format("rank {} died (process {})", peer, peer_pids_[static_cast<std::size_t>(peer)]));
      }) {
  sources_.reserve(static_cast<std::size_t>(size));
}

ExchangeBlock HostCommunicator::allocate(std::size_t bytes, Sharing sharing) {
  const std::size_t most = std::size_t{1} << 46;  // keeps sums of sizes below overflow; no machine has a share of it
  CallHeader header = header_for(Operation::allocate, bytes, Dtype::u8, {.act = "allocate"});
  header.sharing = sharing;
  channel_.open_call(header);
  const int error = bytes > most ? ENOMEM : arena_.prepare(bytes, sharing, [this] { channel_.beat(); });
  channel_.set_result(error);
  channel_.arrive();
  for (int peer = 0; peer < size(); ++peer) {
    const int failed = channel_.result_of(peer);
    if (failed == 0) continue;
    if (bytes <= most) arena_.abandon();
    throw Error(ErrorCode::out_of_budget,
                fmt::format("exchange memory: rank {} could not take its {} bytes of a {} block of {} bytes: {}", peer,
                            arena_.own_bytes(std::min(bytes, most), sharing), to_string(sharing), bytes,
                            std::strerror(failed)));
  }
  count_call(0);
  return arena_.publish();
}

void HostCommunicator::release(ExchangeBlock block) {
  if (block.bytes().empty()) return;
  const ExchangePlace place = place_of(block.bytes().data(), block.bytes().size(), "block to release");
  CallHeader header = header_for(Operation::release, block.bytes().size(), Dtype::u8, {.act = "release"});
  header.sharing = place.sharing;
  header.place = place.segment_offset + place.offset_bytes;
  channel_.open_call(header);  // all ranks are done with it
  arena_.release(place);
  count_call(0);
}

void HostCommunicator::all_gather(const void* source, void* target, std::size_t shard_count, Dtype dtype,
                                  const CallTag& tag) {
  check_gather(shard_count, dtype, size());
  const std::size_t shard_bytes = shard_count * bytes_per_element(dtype);
  const ExchangePlace place = place_of(target, shard_bytes * static_cast<std::size_t>(size()), "all_gather target");
  CallHeader header = header_for(Operation::all_gather, shard_count, dtype, tag);
  header.sharing = place.sharing;
  header.place = place.segment_offset + place.offset_bytes;
  channel_.open_call(header);

  const std::size_t own_offset = static_cast<std::size_t>(rank()) * shard_bytes;
  std::byte* own = static_cast<std::byte*>(target) + own_offset;
  std::size_t moved_bytes = 0;
  if (source != own) large_copy(own, source, shard_bytes);
  if (place.sharing == Sharing::common) {
    if (source != own) moved_bytes = shard_bytes;
  } else {
    channel_.arrive();  // all slices are in place
    // Each rank starts at its successor, so that not all read from the same one.
    for (int step = 1; step < size(); ++step) {
      const int peer = (rank() + step) % size();
      const std::size_t offset = static_cast<std::size_t>(peer) * shard_bytes;
      large_copy(static_cast<std::byte*>(target) + offset, place.of_rank(peer) + offset, shard_bytes);
      moved_bytes += shard_bytes;
    }
  }
  channel_.arrive();
  count_call(moved_bytes);
}

ReduceOutcome HostCommunicator::reduce_scatter(const void* source, std::size_t shard_count, Dtype dtype,
                                               const ReduceTarget& target, const CallTag& tag) {
  check_reduce(shard_count, dtype, target, size());
  const std::size_t shard_bytes = shard_count * bytes_per_element(dtype);
  const ExchangePlace place = place_of(source, shard_bytes * static_cast<std::size_t>(size()), "reduce_scatter source");
  if (place.sharing != Sharing::per_rank) {
    throw Error(ErrorCode::invalid_argument,
                "reduce_scatter source lies in a common block; it must be in a per_rank one");
  }
  CallHeader header = header_for(Operation::reduce_scatter, shard_count, dtype, tag);
  header.reduce_dtype = target.reduce_dtype;
  header.place = place.segment_offset + place.offset_bytes;
  header.weight = target.weight;
  channel_.open_call(header);

  sources_.clear();
  std::size_t moved_bytes = 0;
  for (int peer = 0; peer < size(); ++peer) {
    const float weight = channel_.header_of(peer).weight;
    if (weight == 0) continue;
    sources_.push_back({place.of_rank(peer) + static_cast<std::size_t>(rank()) * shard_bytes, weight, peer});
    if (peer != rank()) moved_bytes += shard_bytes;
  }
  const ReduceOutcome outcome =
      reduce_slices({.sources = sources_,
                     .dtype = dtype,
                     .reduce_dtype = target.reduce_dtype,
                     .count = shard_count,
                     .accumulator = target.accumulator.data(),
                     .mode = target.mode,
                     .leaf_norms = target.leaf_norms.empty() ? nullptr : target.leaf_norms.data()});
  channel_.arrive();
  count_call(moved_bytes);
  return outcome;
}

// Not inlined: its arithmetic must not move over the change of MXCSR.
template <typename T>
__attribute__((noinline)) void HostCommunicator::sum_scratch(std::span<T> piece) const {
  for (std::size_t i = 0; i < piece.size(); ++i) {
    T sum{};
    for (int peer = 0; peer < size(); ++peer) {
      T value;
      std::memcpy(&value, channel_.control(peer).scratch.data() + i * sizeof(T), sizeof(T));
      sum = peer == 0 ? value : sum + value;
    }
    piece[i] = sum;
  }
}

// Through the scratch of the control areas, piece by piece. The first piece is there when the header is posted.
template <typename T>
void HostCommunicator::all_reduce_values(std::span<T> values, Dtype dtype, const CallTag& tag) {
  const detail::DefaultMxcsr default_mxcsr;
  constexpr std::size_t piece_count = scratch_bytes / sizeof(T);
  const auto put = [&](std::span<T> piece) {
    if (!piece.empty()) std::memcpy(channel_.control(rank()).scratch.data(), piece.data(), piece.size_bytes());
  };
  std::span<T> piece = values.first(std::min(values.size(), piece_count));
  put(piece);
  channel_.open_call(header_for(Operation::all_reduce, values.size(), dtype, tag));
  for (std::span<T> rest = values.subspan(piece.size());;) {
    sum_scratch(piece);
    channel_.arrive();
    if (rest.empty()) break;
    piece = rest.first(std::min(rest.size(), piece_count));
    rest = rest.subspan(piece.size());
    put(piece);
    channel_.arrive();
  }
  count_call(values.size_bytes() * static_cast<std::size_t>(size() - 1));
}

void HostCommunicator::all_reduce(std::span<double> values, const CallTag& tag) {
  all_reduce_values(values, Dtype::f64, tag);
}

void HostCommunicator::all_reduce(std::span<std::uint64_t> values, const CallTag& tag) {
  all_reduce_values(values, Dtype::u64, tag);
}

void HostCommunicator::barrier(const CallTag& tag) {
  channel_.open_call(header_for(Operation::barrier, 0, Dtype::u8, tag));
  count_call(0);
}

void HostCommunicator::abort(std::string_view cause) noexcept {
  std::array<char, abort_text_bytes> text;
  const auto end = fmt::format_to_n(text.begin(), text.size(), "rank {}: {}", rank(), cause).out;
  channel_.abort(rank(), {text.data(), static_cast<std::size_t>(end - text.begin())});
}

CommunicatorCounters HostCommunicator::counters() const {
  return {call_count_.load(std::memory_order_relaxed), moved_bytes_.load(std::memory_order_relaxed),
          channel_.peer_wait_s()};
}

ExchangePlace HostCommunicator::place_of(const void* address, std::size_t bytes, std::string_view what) const {
  const auto place = arena_.find(address);
  if (!place || bytes > place->end_bytes - place->offset_bytes) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} of {} bytes is not within a block of this communicator's allocate", what, bytes));
  }
  return *place;
}

void HostCommunicator::count_call(std::size_t moved_bytes) {
  call_count_.fetch_add(1, std::memory_order_relaxed);
  moved_bytes_.fetch_add(moved_bytes, std::memory_order_relaxed);
}

std::unique_ptr<Communicator> make_shm_communicator(JoinedRanks joined, const Deadlines& deadlines) {
  auto segment = std::make_shared<ExchangeSegment>(std::move(joined.segment));
  return std::make_unique<HostCommunicator>(
      std::move(segment), joined.rank, joined.size, deadlines,
      PeerProcesses{std::move(joined.peer_pidfds), std::move(joined.peer_pids), std::move(joined.door)});
}

}  // namespace strata::sharding
