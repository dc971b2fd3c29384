#include "engine/cli/launcher.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <utility>

#include <fmt/format.h>

#include <strata/error.h>

#include "engine/cli/exit_status.h"
#include "engine/cli/job_processes.h"

namespace strata::cli {
namespace {

constexpr double grace_s = 1.5;
constexpr double terminating_s = 0.5;
constexpr double killing_s = 5;  // a killed process that waits for a device may take its time; then it is left alone
constexpr double signal_apart_s = 1;  // the same signal within it is the same wish
constexpr std::array<int, 5> passed_on = {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

sigset_t watched_signals() {
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, SIGCHLD);
  for (const int number : passed_on) ::sigaddset(&set, number);
  return set;
}

}  // namespace

Launcher::Launcher(LaunchPlan plan) : plan_(std::move(plan)), last_passed_(static_cast<std::size_t>(SIGRTMAX) + 1) {
  // Whoever started us may ignore it, and then there is nothing to wait for.
  ::signal(SIGCHLD, SIG_DFL);
  const sigset_t watched = watched_signals();
  ::sigprocmask(SIG_BLOCK, &watched, &signals_before_);
  signals_ = detail::UniqueFd(::signalfd(-1, &watched, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!signals_) throw Error(ErrorCode::io, fmt::format("signalfd: {}", ::strerror(errno)));
}

int Launcher::run() {
  guardian_.emplace(plan_.job);
  if (const std::optional<int> status = start_ranks()) {
    ranks_.clear();
    end_job_processes(plan_.job);
    return *status;
  }
  while (any_running()) {
    wait_for_something();
    take_signals();
    reap_ranks();
    advance();
  }
  end_job_processes(plan_.job);
  return failure_status_.value_or(0);
}

std::optional<int> Launcher::start_ranks() {
  for (int rank = 0; rank < plan_.rank_count; ++rank) {
    try {
      ranks_.emplace_back(RankCommand{.words = plan_.words,
                                      .environment = plan_.environment(rank),
                                      .input = rank == 0 ? Stdin::inherited : Stdin::empty},
                          signals_before_);
    } catch (const StartFailure& failure) {
      const bool missing = failure.error == ENOENT || failure.error == ENOTDIR;
      fmt::print(stderr, "strata run: cannot run '{}': {}\n", plan_.words.front(), ::strerror(failure.error));
      return missing ? status_not_found : status_not_runnable;
    }
  }
  return std::nullopt;
}

void Launcher::wait_for_something() {
  int timeout_ms = -1;
  if (due_) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(*due_ - Clock::now()).count();
    timeout_ms = static_cast<int>(std::max<std::int64_t>(left, 0));
  }
  pollfd entry = {signals_.get(), POLLIN, 0};
  ::poll(&entry, 1, timeout_ms);
}

void Launcher::take_signals() {
  signalfd_siginfo signal = {};
  while (::read(signals_.get(), &signal, sizeof(signal)) == static_cast<ssize_t>(sizeof(signal))) {
    if (signal.ssi_signo != SIGCHLD) pass_on(signal);
  }
}

void Launcher::pass_on(const signalfd_siginfo& signal) {
  const auto now = Clock::now();
  std::optional<Clock::time_point>& last = last_passed_[signal.ssi_signo];
  if (last && now - *last < std::chrono::duration<double>(signal_apart_s)) return;
  last = now;
  // A key pressed at the terminal has reached the ranks already, unless they are in a process group of their own.
  const bool from_terminal = signal.ssi_code == SI_KERNEL;
  const pid_t own_group = ::getpgrp();
  for (const RankProcess& rank : ranks_) {
    if (from_terminal && rank.running() && ::getpgid(rank.pid()) == own_group) continue;
    rank.signal(static_cast<int>(signal.ssi_signo));
  }
}

void Launcher::reap_ranks() {
  std::vector<std::size_t> failed;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    if (ranks_[rank].reap() && !ranks_[rank].ending()->good()) failed.push_back(rank);
  }
  if (failed.empty() || failure_status_) return;
  // Seen at once: the one that was killed is the cause, the one that could say something has only noticed.
  const auto first =
      std::find_if(failed.begin(), failed.end(), [&](std::size_t rank) { return ranks_[rank].ending()->by_signal(); });
  note_failure(first == failed.end() ? failed.front() : *first);
}

void Launcher::note_failure(std::size_t rank) {
  const Ending& ending = *ranks_[rank].ending();
  failure_status_ = ending.exit_status();
  fmt::print(stderr, "strata run: rank {} (pid {}) {}\n", rank, ranks_[rank].pid(), ending.text());
  enter(Phase::grace, grace_s);
}

void Launcher::advance() {
  if (!due_ || Clock::now() < *due_) return;
  switch (phase_) {
    case Phase::running: break;
    case Phase::grace:
      signal_ranks(SIGTERM);
      signal_ranks(SIGCONT);  // a stopped rank hears nothing else
      enter(Phase::terminating, terminating_s);
      break;
    case Phase::terminating:
      signal_ranks(SIGKILL);
      enter(Phase::killing, killing_s);
      break;
    case Phase::killing: throw Error(ErrorCode::io, "ranks that were killed do not end: they wait for a device");
  }
}

void Launcher::enter(Phase phase, double patience_s) {
  phase_ = phase;
  due_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(patience_s));
}

void Launcher::signal_ranks(int number) const {
  for (const RankProcess& rank : ranks_) rank.signal(number);
}

bool Launcher::any_running() const {
  return std::any_of(ranks_.begin(), ranks_.end(), [](const RankProcess& rank) { return rank.running(); });
}

}  // namespace strata::cli
