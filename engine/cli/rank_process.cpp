#include "engine/cli/rank_process.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include <strata/detail/unique_fd.h>
#include <strata/error.h>

namespace strata::cli {
namespace {

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> made;
  for (const std::string& text : texts) made.push_back(const_cast<char*>(text.c_str()));
  made.push_back(nullptr);
  return made;
}

struct ChildSetup {
  std::vector<char*> words;
  std::vector<char*> environment;
  Stdin input;
  sigset_t signals;
  pid_t launcher;
  int failure_pipe;
};

[[noreturn]] void report_and_end(const ChildSetup& setup, int error) {
  [[maybe_unused]] const ssize_t told = ::write(setup.failure_pipe, &error, sizeof(error));
  ::_exit(127);
}

[[noreturn]] void become_program(const ChildSetup& setup) {
  // The launcher may have died before the wish to die with it was known.
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) report_and_end(setup, errno);
  if (::getppid() != setup.launcher) ::_exit(127);
  if (setup.input == Stdin::empty) {
    const int nothing = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (nothing < 0 || ::dup2(nothing, STDIN_FILENO) < 0) report_and_end(setup, errno);
    if (nothing == STDIN_FILENO) ::fcntl(nothing, F_SETFD, 0);
  }
  ::sigprocmask(SIG_SETMASK, &setup.signals, nullptr);
  ::execvpe(setup.words[0], setup.words.data(), setup.environment.data());
  report_and_end(setup, errno);
}

}  // namespace

bool Ending::good() const { return WIFEXITED(status) && WEXITSTATUS(status) == 0; }
bool Ending::by_signal() const { return WIFSIGNALED(status); }
int Ending::exit_status() const { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

std::string Ending::text() const {
  if (!by_signal()) return fmt::format("ended with status {}", WEXITSTATUS(status));
  return fmt::format("was killed by signal {} ({}){}", WTERMSIG(status), ::strsignal(WTERMSIG(status)),
                     WCOREDUMP(status) ? ", core dumped" : "");
}

RankProcess::RankProcess(const RankCommand& command, const sigset_t& signals_before) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(ErrorCode::io, fmt::format("pipe2: {}", ::strerror(errno)));
  const detail::UniqueFd output(ends[0]);
  detail::UniqueFd input(ends[1]);
  const ChildSetup setup = {
      pointers(command.words), pointers(command.environment), command.input, signals_before, ::getpid(), input.get()};
  pid_ = ::fork();
  if (pid_ == 0) become_program(setup);
  if (pid_ < 0) throw Error(ErrorCode::io, fmt::format("fork: {}", ::strerror(errno)));

  // Closed without a word by a successful exec.
  input = {};
  int error = 0;
  ssize_t bytes = -1;
  do {
    bytes = ::read(output.get(), &error, sizeof(error));
  } while (bytes < 0 && errno == EINTR);
  if (bytes == static_cast<ssize_t>(sizeof(error))) {
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
    throw StartFailure{error};
  }
}

RankProcess::RankProcess(RankProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), ending_(std::exchange(other.ending_, std::nullopt)) {}

RankProcess::~RankProcess() {
  if (pid_ < 0 || ending_) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

bool RankProcess::reap() {
  if (ending_) return false;
  int status = 0;
  if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
  ending_ = Ending{status};
  return true;
}

void RankProcess::signal(int number) const {
  if (running()) ::kill(pid_, number);
}

}  // namespace strata::cli
