// The one exception of strata. Its code names the remedy, its text what happened, where, and what would be right.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace strata {

enum class ErrorCode {
  invalid_argument,  // change the argument or option that the text names; nothing was done
  out_of_budget,     // raise the budget, or shard further: the text holds the plan's table
  io,                // the system refused or failed; the text has path, offset, length and errno
  corruption,        // bytes are not what was written: go back to a checkpoint
  peer_lost,         // a rank died, fell silent, left or failed; the text names it: restart the job
  mismatch,          // ranks made different calls or have different settings; the text names both sides
  ended,             // nothing is wrong: --strata-plan or --strata-help asked for no more than the text
  unsupported,       // not in this build or not on this machine; the text names the build option
};

std::string_view to_string(ErrorCode code);

// Thrown by every failing call of strata. `what()` begins with the code's name, as in "peer_lost: rank 1 ...".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text);
  ErrorCode code() const noexcept { return code_; }
  std::string text() const;  // what() without the code's name

 private:
  ErrorCode code_;
};

}  // namespace strata
