#include "engine/retune.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include <strata/bytes.h>
#include <strata/error.h>
#include "engine/core.h"
#include "engine/engine_start.h"
#include "engine/options/table.h"
#include "engine/published_state.h"

namespace strata::engine {
namespace {

constexpr std::array<std::string_view, 7> fixed_options{"stage",        "device", "dtype", "grad-dtype",
                                                        "reduce-dtype", "reduce", "comm"};

// Hands out a unit's masters and moments in order, from chunks of any size.
class StateReader {
 public:
  StateReader(ChunkStream& chunks, std::size_t unit) : chunks_(chunks), unit_(unit) {}
  StateReader(const StateReader&) = delete;
  StateReader& operator=(const StateReader&) = delete;

  // Gives the last chunk back, which may begin a load and so throw.
  void finish() {
    if (view_) chunks_.give_back(*view_);
    view_.reset();
  }

  // The next `masters.size()` elements; moments where the target has any.
  void read(std::span<float> masters, const std::array<float*, moments_max>& moments) {
    for (std::size_t done = 0; done < masters.size();) {
      if (!view_ || at_ == view_->count) next_chunk();
      const std::size_t count = std::min(masters.size() - done, view_->count - at_);
      std::copy_n(masters_.begin() + static_cast<std::ptrdiff_t>(at_), count,
                  masters.begin() + static_cast<std::ptrdiff_t>(done));
      for (std::size_t m = 0; m < moments_max; ++m) {
        if (moments[m] != nullptr) std::copy_n(view_->moments[m] + at_, count, moments[m] + done);
      }
      at_ += count;
      done += count;
    }
  }

 private:
  void next_chunk() {
    finish();
    view_ = chunks_.take(unit_, next_index_++);
    masters_ = chunks_.join_masters(*view_);
    at_ = 0;
  }

  ChunkStream& chunks_;
  const std::size_t unit_;
  std::optional<ChunkView> view_;
  std::span<const float> masters_;
  std::size_t next_index_ = 0;
  std::size_t at_ = 0;
};

void copy_trainable(const StatePasses& from, EngineContext& to, ChunkStream& to_chunks, std::size_t unit) {
  StateReader reader(from.chunks, unit);
  for (std::size_t c = 0; c < to_chunks.chunk_count_of(unit); ++c) {
    const ChunkView view = to_chunks.take(unit, c);
    const std::span<float> masters = to_chunks.join_masters(view);
    reader.read(masters, view.moments);
    publish(masters, view.published, to.options.dtype);
    to_chunks.split_masters(view, masters);
    to_chunks.give_back(view);
  }
  reader.finish();
}

}  // namespace

void check_retune(const Options& now, const Options& wanted) {
  for (const std::string_view name : fixed_options) {
    const detail::OptionDescriptor* option = detail::find_option(name);
    const std::string before = option->print(now), after = option->print(wanted);
    if (before == after) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("retune() cannot change {} from {} to {}: start an engine with it", detail::flag_of(name),
                            before, after));
  }
}

void check_peak(const Plan& held, const Plan& wanted, const Options& options) {
  const auto check = [&](TierKind tier, std::string_view option, const std::optional<std::uint64_t>& budget) {
    const std::uint64_t peak = held.total_bytes(tier) + wanted.total_bytes(tier);
    if (!budget || peak <= *budget) return;
    throw Error(ErrorCode::out_of_budget,
                fmt::format("retune() needs {} for the old and the new memory together, and {} is {}: raise it, or "
                            "move less at once\n{}",
                            format_bytes(peak), option, format_bytes(*budget), wanted.table()));
  };
  check(TierKind::device, "--strata-device-memory", options.device_memory_bytes);
  check(TierKind::host, "--strata-host-memory", options.host_memory_bytes);
  check(TierKind::nvme, "--strata-nvme-memory", options.nvme_memory_bytes);
}

void copy_state(const EngineContext& from, const StatePasses& from_passes, EngineContext& to, ChunkStream& to_chunks) {
  const std::size_t element_bytes = bytes_per_element(to.options.dtype);
  for (std::size_t unit = 0; unit < to.units.size(); ++unit) {
    const std::size_t held_begin = frozen_held(from, unit).begin;
    read_frozen(from, from_passes.shards, unit, [&](const std::byte* data) {
      write_frozen(to, to_chunks, unit, [&](sharding::FlatRange range, std::byte* target) {
        std::copy_n(data + (range.begin - held_begin) * element_bytes, range.count() * element_bytes, target);
      });
    });
  }
  from_passes.chunks.begin(Access::read, all_units(from));
  to_chunks.begin(Access::write, all_units(to));
  for (std::size_t unit = 0; unit < to.units.size(); ++unit) {
    copy_trainable(from_passes, to, to_chunks, unit);
    complete_published(to, unit, "retune");
  }
  to_chunks.wait_stored();
}

void release_exchange(Communicator& communicator, EngineMemory& memory) {
  for (ExchangeBlock* block : {&memory.published_exchange, &memory.grad_slots_exchange, &memory.accumulators_exchange,
                               &memory.param_slots, &memory.agreement_all}) {
    communicator.release(std::exchange(*block, {}));
  }
}

}  // namespace strata::engine

namespace strata::detail {

void EngineCore::retune(const Options& options) {
  check_usable();
  check_no_leases("retune()");
  if (in_micro_batch_) throw Error(ErrorCode::invalid_argument, "retune() within a step: call step() first");
  validate(options);
  engine::check_retune(context_.options, options);
  drain();
  context_.note_call("retune", 0);
  engine::EngineContext next;
  engine::start(next, {context_.units, context_.optimizer, *context_.communicator}, options, &context_.plan);
  next.caller_hash = context_.caller_hash;
  try {
    engine::ChunkStream chunks(next);
    engine::copy_state(context_, {update_->chunks(), gather_->loader()}, next, chunks);
  } catch (const Error& error) {
    failure_.emplace(error.code(), error.text());
    throw;
  }
  end_parts();
  engine::release_exchange(*context_.communicator, context_.memory);
  context_.adopt(std::move(next));
  engine::index_tensors(context_);
  start_parts();
  disk_before_ = {};
}

}  // namespace strata::detail
