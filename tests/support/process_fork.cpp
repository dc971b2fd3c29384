#include "support/process_fork.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <exception>
#include <stdexcept>
#include <utility>

namespace strata::test {

ForkedCall::ForkedCall(const std::function<std::string()>& body) {
  std::array<int, 2> ends = {};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
  output_ = detail::UniqueFd(ends[0]);
  const detail::UniqueFd input(ends[1]);
  pid_ = ::fork();
  if (pid_ < 0) throw std::runtime_error("fork");
  if (pid_ > 0) return;
  std::string said;
  try {
    said = body();
  } catch (const std::exception& error) {
    said = std::string("Error: ") + error.what();
  }
  const ssize_t written = ::write(input.get(), said.data(), said.size());
  ::_exit(written == static_cast<ssize_t>(said.size()) ? 0 : 1);
}

ForkedCall::ForkedCall(ForkedCall&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), output_(std::move(other.output_)) {}

ForkedCall::~ForkedCall() {
  if (pid_ < 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void ForkedCall::signal(int number) const {
  if (pid_ > 0) ::kill(pid_, number);
}

std::string ForkedCall::result(double deadline_s) {
  using Clock = std::chrono::steady_clock;
  const auto due =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(deadline_s));
  std::string said;
  std::array<char, 4096> buffer;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(due - Clock::now()).count();
    pollfd entry = {output_.get(), POLLIN, 0};
    if (left <= 0 || ::poll(&entry, 1, static_cast<int>(left)) == 0) {
      ::kill(pid_, SIGKILL);
      said += " [not done in time]";
      break;
    }
    const ssize_t bytes = ::read(output_.get(), buffer.data(), buffer.size());
    if (bytes <= 0) break;
    said.append(buffer.data(), static_cast<std::size_t>(bytes));
  }
  int status = 0;
  ::waitpid(std::exchange(pid_, -1), &status, 0);
  if (WIFSIGNALED(status)) said += " [killed by signal " + std::to_string(WTERMSIG(status)) + "]";
  return said;
}

}  // namespace strata::test
