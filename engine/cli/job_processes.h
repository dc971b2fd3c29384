// All processes of a job, those included that a rank started and left behind: found by the job's name in their
// environment.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include <strata/detail/unique_fd.h>

namespace strata::cli {

// Their descriptors (pidfds), readable when they end; this process is not among them, nor is one of another user, nor
// one that cleared its environment.
std::vector<detail::UniqueFd> find_job_processes(std::string_view job);

// Kills them, again while new ones appear, for at most two seconds.
void kill_job_processes(std::string_view job);

// Waits half a second for them, then sends SIGTERM, waits as long, and kills. True when none was there.
bool end_job_processes(std::string_view job);

}  // namespace strata::cli
