#include "engine/cli/guardian.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include <strata/error.h>

#include "engine/cli/job_processes.h"

namespace strata::cli {
namespace {

struct Pipe {
  detail::UniqueFd output;
  detail::UniqueFd input;
};

Pipe make_pipe() {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw Error(ErrorCode::io, fmt::format("pipe2: {}", ::strerror(errno)));
  return {detail::UniqueFd(ends[0]), detail::UniqueFd(ends[1])};
}

ssize_t read_fully(int fd, void* target, std::size_t bytes) {
  ssize_t got = -1;
  do {
    got = ::read(fd, target, bytes);
  } while (got < 0 && errno == EINTR);
  return got;
}

// Deaf to everything but the lifeline, and holding nothing that belongs to the job: no output, no terminal, no folder.
[[noreturn]] void guard(int lifeline, const std::string& job) {
  sigset_t all;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, nullptr);
  ::prctl(PR_SET_NAME, "strata-guardian");
  if (::chdir("/") != 0 || ::dup2(lifeline, STDIN_FILENO) < 0) ::_exit(1);
  ::syscall(SYS_close_range, 1U, ~0U, 0U);
  char dismissed = 0;
  if (read_fully(STDIN_FILENO, &dismissed, 1) != 1) kill_job_processes(job);
  ::_exit(0);
}

}  // namespace

Guardian::Guardian(const std::string& job) {
  Pipe lifeline = make_pipe();
  Pipe number = make_pipe();
  const pid_t between = ::fork();
  if (between < 0) throw Error(ErrorCode::io, fmt::format("fork: {}", ::strerror(errno)));
  if (between == 0) {
    // Forked twice: an orphan is nobody's child but the system's, which reaps it.
    if (::setsid() < 0) ::_exit(1);
    const pid_t guardian = ::fork();
    if (guardian == 0) guard(lifeline.output.get(), job);
    const bool told = guardian > 0 && ::write(number.input.get(), &guardian, sizeof(guardian)) == sizeof(guardian);
    ::_exit(told ? 0 : 1);
  }
  number.input = {};
  pid_t guardian = 0;
  const bool known = read_fully(number.output.get(), &guardian, sizeof(guardian)) == sizeof(guardian);
  ::waitpid(between, nullptr, 0);
  if (!known) throw Error(ErrorCode::io, "fork of the job's guardian: the system has no more processes");
  process_ = detail::UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, guardian, 0)));
  lifeline_ = std::move(lifeline.input);
}

Guardian::~Guardian() {
  const char dismissed = 1;
  [[maybe_unused]] const ssize_t told = ::write(lifeline_.get(), &dismissed, 1);
  pollfd entry = {process_.get(), POLLIN, 0};
  if (process_) ::poll(&entry, 1, 1000);
}

}  // namespace strata::cli
