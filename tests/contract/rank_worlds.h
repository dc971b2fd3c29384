// Worlds for the communicator's contract: each runs a body once per rank and brings back what the ranks say.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <strata/communicator.h>

#include "support/process_fork.h"

namespace strata::test {

// What a rank says: nothing when all is well. An exception is said as its text.
using RankBody = std::function<std::string(Communicator&)>;

enum class WorldKind { solo, threads, processes };
std::string_view to_string(WorldKind kind);

// One answer per rank.
std::vector<std::string> run_world(WorldKind kind, int size, const Deadlines& deadlines, const RankBody& body);

// Ranks as processes that a test can signal; all have started, none need have joined yet.
class ProcessWorld {
 public:
  ProcessWorld(int size, const Deadlines& deadlines, const RankBody& body);
  ForkedCall& rank(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }

 private:
  std::vector<ForkedCall> ranks_;
};

// Collects what a rank finds wrong.
class Findings {
 public:
  void require(bool holds, const std::string& what) {
    if (!holds && text_.size() < 2000) text_ += what + "; ";
  }
  // `act` must throw an Error whose text has all `parts`.
  void require_error(const std::function<void()>& act, const std::vector<std::string>& parts);
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

}  // namespace strata::test
