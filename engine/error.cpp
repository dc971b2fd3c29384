#include <strata/error.h>

namespace strata {

std::string_view to_string(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_argument: return "invalid_argument";
    case ErrorCode::out_of_budget: return "out_of_budget";
    case ErrorCode::io: return "io";
    case ErrorCode::corruption: return "corruption";
    case ErrorCode::peer_lost: return "peer_lost";
    case ErrorCode::mismatch: return "mismatch";
    case ErrorCode::ended: return "ended";
    case ErrorCode::unsupported: return "unsupported";
  }
  return "?";
}

Error::Error(ErrorCode code, const std::string& text)
    : std::runtime_error(std::string(to_string(code)) + ": " + text), code_(code) {}

std::string Error::text() const { return std::string(what()).substr(to_string(code_).size() + 2); }

}  // namespace strata
