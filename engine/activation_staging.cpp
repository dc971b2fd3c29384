#include "engine/activation_staging.h"

#include <algorithm>
#include <cstring>

#include <strata/detail/assert.h>
#include <strata/engine.h>
#include <strata/error.h>
#include "engine/stopwatch.h"

namespace strata::engine {

ActivationStaging::ActivationStaging(Tier& tier, std::size_t piece_count, std::uint64_t staging_bytes)
    : memory_(staging_bytes),
      sealed_(tier),
      buffers_(staging_bytes / stash_piece_bytes),
      buffer_of_(piece_count, nothing) {
  STRATA_ASSERT(!buffers_.empty());
  for (std::size_t piece = 0; piece < piece_count; ++piece) {
    const offload::Identity identity{offload::Content::activation, 0, static_cast<std::uint32_t>(piece)};
    const std::size_t item = sealed_.add(identity, stash_piece_bytes, offload::Copies::one);
    if (piece == 0) first_item_ = item;
  }
}

ActivationStaging::~ActivationStaging() {
  for (const Buffer& buffer : buffers_) {
    try {
      buffer.event.wait();
    } catch (const Error&) {
      // Nobody wants these bytes any more.
    }
  }
}

std::span<std::byte> ActivationStaging::bytes_of(std::uint32_t buffer) const {
  return memory_.bytes().subspan(buffer * stash_piece_bytes, stash_piece_bytes);
}

void ActivationStaging::wait(const Event& event) {
  if (event.ready()) return event.wait();  // throws if it has failed
  const Stopwatch watch;
  event.wait();
  waited_s_ += watch.seconds();
}

std::uint32_t ActivationStaging::idle_buffer() const {
  for (std::uint32_t i = 0; i < buffers_.size(); ++i) {
    if (!buffers_[i].wanted && buffers_[i].event.ready()) return i;
  }
  return nothing;
}

void ActivationStaging::assign(std::uint32_t buffer, std::uint32_t piece, std::uint64_t age) {
  Buffer& taken = buffers_[buffer];
  try {
    wait(taken.event);
  } catch (const Error&) {
    if (taken.state == State::stored) throw;  // else bytes that nobody wants could not be read
  }
  if (taken.piece != nothing) buffer_of_[taken.piece] = nothing;
  taken = {State::empty, true, piece, age, {}};
  buffer_of_[piece] = buffer;
}

// The piece's own buffer, else one that needs no waiting, else the oldest.
std::uint32_t ActivationStaging::take_buffer(std::uint32_t piece, std::uint64_t age) {
  std::uint32_t best = buffer_of_[piece];
  if (best == nothing) {
    const auto less = [](const Buffer& a, const Buffer& b) {
      if (a.event.ready() != b.event.ready()) return a.event.ready();
      return (a.wanted ? a.age : 0) < (b.wanted ? b.age : 0);
    };
    best = static_cast<std::uint32_t>(std::min_element(buffers_.begin(), buffers_.end(), less) - buffers_.begin());
  }
  assign(best, piece, age);
  return best;
}

void ActivationStaging::put(std::uint32_t piece, std::uint64_t age, std::span<const std::byte> bytes) {
  const std::uint32_t at = take_buffer(piece, age);
  if (!bytes.empty()) std::memcpy(bytes_of(at).data(), bytes.data(), bytes.size());
  buffers_[at].event = sealed_.store(first_item_ + piece, bytes_of(at));
  buffers_[at].state = State::stored;
}

void ActivationStaging::load(std::uint32_t buffer) {
  buffers_[buffer].event = sealed_.load(first_item_ + buffers_[buffer].piece, bytes_of(buffer));
  buffers_[buffer].state = State::loading;
}

bool ActivationStaging::read_ahead(std::uint32_t piece, std::uint64_t age) {
  if (buffer_of_[piece] != nothing) return true;
  const std::uint32_t at = idle_buffer();
  if (at == nothing) return false;
  assign(at, piece, age);
  load(at);
  return true;
}

void ActivationStaging::copy_out(std::uint32_t piece, std::uint64_t age, std::span<std::byte> target) {
  const std::uint32_t at = buffer_of_[piece] == nothing ? take_buffer(piece, age) : buffer_of_[piece];
  Buffer& buffer = buffers_[at];
  if (buffer.state == State::empty) load(at);
  if (buffer.state == State::loading) {
    try {
      wait(buffer.event);
      sealed_.verify(first_item_ + piece, bytes_of(at));
    } catch (const Error&) {
      buffer_of_[piece] = nothing;
      buffer = {};
      throw;
    }
    buffer.state = State::loaded;
  }
  if (!target.empty()) std::memcpy(target.data(), bytes_of(at).data(), target.size());
}

void ActivationStaging::forget(std::uint32_t piece) {
  if (buffer_of_[piece] != nothing) buffers_[buffer_of_[piece]].wanted = false;
}

}  // namespace strata::engine
