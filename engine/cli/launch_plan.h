// What is to be started, and with which environment: decided before any process is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace strata::cli {

inline constexpr int rank_count_max = 4096;

// The variable by which all processes of a job are known, whoever started them.
inline constexpr std::string_view job_variable = "STRATA_JOB";

struct LaunchPlan {
  int rank_count = 1;
  std::vector<std::string> words;  // program and arguments
  std::string job;                 // random: no other job has it, and none can be guessed

  // What rank's environment is: this process's, with the rank's place in it. "NAME=value" each.
  std::vector<std::string> environment(int rank) const;
  int threads = 1;  // cores of this process over ranks, at least 1
};

// REQUIRES 1 <= rank_count <= rank_count_max, words not empty. Throws Error{io} when the system gives no random bytes.
LaunchPlan plan_launch(int rank_count, std::vector<std::string> words);

}  // namespace strata::cli
