#include "engine/cli/job_processes.h"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include <fmt/format.h>

#include "engine/cli/launch_plan.h"

namespace strata::cli {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

std::optional<pid_t> process_number(const char* name) {
  pid_t pid = 0;
  const char* end = name + std::strlen(name);
  const auto parsed = std::from_chars(name, end, pid);
  return parsed.ec == std::errc() && parsed.ptr == end ? std::optional(pid) : std::nullopt;
}

// What it was started with. Empty for a process that has ended or is not ours.
std::string environment_of(pid_t pid) {
  const detail::UniqueFd file(::open(fmt::format("/proc/{}/environ", pid).c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(1, '\0');  // so that every entry has a zero on both sides
  if (!file) return text;
  std::array<char, 16384> piece;
  for (ssize_t bytes = 0; (bytes = ::read(file.get(), piece.data(), piece.size())) > 0;) {
    text.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  text.push_back('\0');
  return text;
}

bool belongs(pid_t pid, const std::string& entry) { return environment_of(pid).find(entry) != std::string::npos; }

bool is_ours(pid_t pid) {
  struct stat found = {};
  return ::stat(fmt::format("/proc/{}", pid).c_str(), &found) == 0 && found.st_uid == ::geteuid();
}

void signal_all(const std::vector<detail::UniqueFd>& processes, int number) {
  for (const detail::UniqueFd& process : processes) ::syscall(SYS_pidfd_send_signal, process.get(), number, nullptr, 0);
}

void wait_for_all(const std::vector<detail::UniqueFd>& processes, milliseconds patience) {
  const auto due = Clock::now() + patience;
  for (const detail::UniqueFd& process : processes) {
    const auto left = std::chrono::ceil<milliseconds>(due - Clock::now()).count();
    pollfd entry = {process.get(), POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(std::max<std::int64_t>(left, 0)));
  }
}

}  // namespace

std::vector<detail::UniqueFd> find_job_processes(std::string_view job) {
  std::string entry(1, '\0');
  entry += fmt::format("{}={}", job_variable, job);
  entry += '\0';
  std::vector<detail::UniqueFd> found;
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/proc"), &::closedir);
  if (!folder) return found;
  while (const dirent* item = ::readdir(folder.get())) {
    const std::optional<pid_t> pid = process_number(item->d_name);
    if (!pid || *pid == ::getpid() || !is_ours(*pid) || !belongs(*pid, entry)) continue;
    detail::UniqueFd process(static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));
    // Looked at again: between the first look and the descriptor, the number may have gone to another process.
    if (process && belongs(*pid, entry)) found.push_back(std::move(process));
  }
  return found;
}

void kill_job_processes(std::string_view job) {
  const auto due = Clock::now() + milliseconds(2000);
  while (Clock::now() < due) {
    const std::vector<detail::UniqueFd> processes = find_job_processes(job);
    if (processes.empty()) return;
    signal_all(processes, SIGKILL);
    wait_for_all(processes, milliseconds(500));
  }
}

bool end_job_processes(std::string_view job) {
  std::vector<detail::UniqueFd> processes = find_job_processes(job);
  if (processes.empty()) return true;
  wait_for_all(processes, milliseconds(500));
  signal_all(processes, SIGTERM);
  wait_for_all(processes, milliseconds(500));
  kill_job_processes(job);
  return false;
}

}  // namespace strata::cli
