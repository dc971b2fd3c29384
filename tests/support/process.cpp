#include "support/process.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace strata::test {
namespace {

using Clock = std::chrono::steady_clock;

void require(bool holds, const char* what) {
  if (!holds) throw std::runtime_error(fmt::format("{}: {}", what, std::strerror(errno)));
}

detail::UniqueFd nameless_file(const char* name) {
  detail::UniqueFd file(::memfd_create(name, MFD_CLOEXEC));
  require(static_cast<bool>(file), "memfd_create");
  // Several processes write at once, and the shared position of such a file is not guarded.
  require(::fcntl(file.get(), F_SETFL, O_APPEND) == 0, "fcntl");
  return file;
}

std::string content(int file) {
  std::string text;
  std::array<char, 4096> piece;
  for (ssize_t bytes = 0; (bytes = ::pread(file, piece.data(), piece.size(), static_cast<off_t>(text.size()))) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  return text;
}

// Asks again until it holds: for what the system tells nobody about.
bool eventually(const std::function<bool()>& holds, double deadline_s) {
  const auto due = Clock::now() + std::chrono::duration<double>(deadline_s);
  while (!holds()) {
    if (Clock::now() >= due) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

// Not through a stream: what /proc says of a process that ends meanwhile is an error there.
std::string file_text(const std::string& path) {
  const detail::UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  return file ? content(file.get()) : std::string();
}

struct ProcessState {
  char letter = '?';
  pid_t parent = 0;
};

std::optional<ProcessState> state_of(pid_t pid) {
  const std::string text = file_text(fmt::format("/proc/{}/stat", pid));
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return std::nullopt;
  ProcessState state;
  std::istringstream(text.substr(name_end + 1)) >> state.letter >> state.parent;
  return state;
}

std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  while (const dirent* item = folder ? ::readdir(folder.get()) : nullptr) {
    pid_t pid = 0;
    const char* end = item->d_name + std::strlen(item->d_name);
    if (std::from_chars(item->d_name, end, pid).ptr == end) found.push_back(pid);
  }
  return found;
}

void change_environment(const std::vector<std::string>& entries) {
  for (const std::string& entry : entries) {
    const std::size_t equals = entry.find('=');
    const std::string name = entry.substr(0, equals);
    if (equals == std::string::npos) {
      ::unsetenv(name.c_str());
    } else {
      ::setenv(name.c_str(), entry.c_str() + equals + 1, 1);
    }
  }
}

}  // namespace

bool has_terminals() { return static_cast<bool>(detail::UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC))); }

Program::Program(const std::vector<std::string>& words, const ProgramSetup& setup)
    : output_(nameless_file("output")), errors_(nameless_file("errors")) {
  const detail::UniqueFd input = nameless_file("input");
  require(::write(input.get(), setup.input.data(), setup.input.size()) == static_cast<ssize_t>(setup.input.size()),
          "write");
  ::lseek(input.get(), 0, SEEK_SET);
  detail::UniqueFd screen;
  if (setup.terminal == Terminal::controlling) {
    terminal_ = detail::UniqueFd(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC | O_NONBLOCK));
    require(terminal_ && ::grantpt(terminal_.get()) == 0 && ::unlockpt(terminal_.get()) == 0, "posix_openpt");
    screen = detail::UniqueFd(::open(::ptsname(terminal_.get()), O_RDWR | O_NOCTTY | O_CLOEXEC));
    require(static_cast<bool>(screen), "open terminal");
  }
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);

  pid_ = ::fork();
  require(pid_ >= 0, "fork");
  if (pid_ > 0) return;
  ::setsid();
  if (screen) ::ioctl(screen.get(), TIOCSCTTY, 0);
  ::dup2(screen ? screen.get() : input.get(), STDIN_FILENO);
  ::dup2(screen ? screen.get() : output_.get(), STDOUT_FILENO);
  ::dup2(screen ? screen.get() : errors_.get(), STDERR_FILENO);
  change_environment(setup.environment);
  ::execvp(pointers[0], pointers.data());
  ::_exit(255);
}

Program::~Program() {
  if (pid_ < 0 || status_ >= 0) return;
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Program::signal(int number) const {
  if (status_ < 0) ::kill(pid_, number);
}

int Program::wait(double deadline_s) {
  int status = 0;
  if (status_ < 0 && eventually([&] { return ::waitpid(pid_, &status, WNOHANG) == pid_; }, deadline_s)) {
    status_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  }
  return status_;
}

std::string Program::output() {
  if (!terminal_) return content(output_.get());
  std::array<char, 4096> piece;
  for (ssize_t bytes = 0; (bytes = ::read(terminal_.get(), piece.data(), piece.size())) > 0;) {
    shown_.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  return shown_;
}

std::string Program::errors() { return content(errors_.get()); }

bool Program::wait_for_output(const std::string& text, std::size_t count) {
  return eventually([&] { return occurrences(output(), text) >= count; }, 10);
}

void Program::type(const std::string& keys) const {
  require(::write(terminal_.get(), keys.data(), keys.size()) == static_cast<ssize_t>(keys.size()), "write to terminal");
}

std::size_t occurrences(const std::string& text, const std::string& word) {
  std::size_t found = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++found;
  return found;
}

bool alive(pid_t pid) {
  const std::optional<ProcessState> state = state_of(pid);
  return state && state->letter != 'Z' && state->letter != 'X';
}

bool wait_until_dead(pid_t pid, double deadline_s) {
  return eventually([&] { return !alive(pid); }, deadline_s);
}

std::vector<pid_t> children_of(pid_t pid) {
  std::vector<pid_t> found = all_processes();
  std::erase_if(found, [&](pid_t other) {
    const std::optional<ProcessState> state = state_of(other);
    return !state || state->parent != pid;
  });
  std::sort(found.begin(), found.end());
  return found;
}

std::vector<pid_t> wait_for_children(pid_t pid, std::size_t count) {
  std::vector<pid_t> found;
  eventually([&] { return (found = children_of(pid)).size() == count; }, 10);
  return found;
}

std::vector<pid_t> processes_with(const std::string& word) {
  std::vector<pid_t> found = all_processes();
  std::erase_if(found, [&](pid_t pid) {
    return pid == ::getpid() || !alive(pid) ||
           file_text(fmt::format("/proc/{}/cmdline", pid)).find(word) == std::string::npos;
  });
  return found;
}

bool wait_until_none_with(const std::string& word, double deadline_s) {
  return eventually([&] { return processes_with(word).empty(); }, deadline_s);
}

std::string fresh_word() {
  static int count = 0;
  return fmt::format("strata-test-{}-{}", ::getpid(), ++count);
}

}  // namespace strata::test
