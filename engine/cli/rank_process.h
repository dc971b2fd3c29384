// One rank: a direct child of this process, and its end.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace strata::cli {

struct Ending {
  int status = 0;  // what waitpid() said

  bool good() const;
  int exit_status() const;  // 128 + N when killed by signal N
  bool by_signal() const;
  std::string text() const;  // "ended with status 3", "was killed by signal 9 (Killed)"
};

enum class Stdin { inherited, empty };

struct RankCommand {
  std::vector<std::string> words;        // program and arguments
  std::vector<std::string> environment;  // "NAME=value"
  Stdin input = Stdin::empty;
};

// The errno of a program that could not be run.
struct StartFailure {
  int error = 0;
};

class RankProcess {
 public:
  // Returns when the program runs, or throws StartFailure when it cannot. The child has our signal handling of before,
  // none of our descriptors, and dies by SIGKILL when this process does. REQUIRES: called by the main thread, which
  // started with `signals_before` blocked; Throws Error{io} when the system has no more processes.
  RankProcess(const RankCommand& command, const sigset_t& signals_before);
  RankProcess(RankProcess&& other) noexcept;
  RankProcess& operator=(RankProcess&&) = delete;
  ~RankProcess();  // kills and reaps it if it still runs

  pid_t pid() const { return pid_; }
  bool running() const { return !ending_; }
  const std::optional<Ending>& ending() const { return ending_; }

  // True when it has just ended. Never blocks.
  bool reap();
  void signal(int number) const;  // nothing when it has ended

 private:
  pid_t pid_ = -1;
  std::optional<Ending> ending_;
};

}  // namespace strata::cli
