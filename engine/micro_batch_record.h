// What the caller did in a micro-batch, so that a rank without data can do the same.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace strata::engine {

enum class MicroBatchAct : std::uint8_t { gather, release, gradients, commit };

struct MicroBatchEntry {
  MicroBatchAct act;
  std::uint32_t unit;
};

class MicroBatchRecord {
 public:
  void note(MicroBatchAct act, std::size_t unit) { current_.push_back({act, static_cast<std::uint32_t>(unit)}); }

  // The micro-batch is over; one without acts leaves the last record alone.
  void end() {
    if (!current_.empty()) std::swap(last_, current_);
    current_.clear();
  }

  const std::vector<MicroBatchEntry>& last() const { return last_; }

 private:
  std::vector<MicroBatchEntry> last_;
  std::vector<MicroBatchEntry> current_;
};

}  // namespace strata::engine
