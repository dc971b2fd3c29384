// What the program's exit status says.
#pragma once

namespace strata::cli {

inline constexpr int status_no = 1;        // a question was answered with no
inline constexpr int status_usage = 2;     // the command line cannot be understood
inline constexpr int status_failed = 125;  // strata itself could not do it
inline constexpr int status_not_runnable = 126;
inline constexpr int status_not_found = 127;

}  // namespace strata::cli
