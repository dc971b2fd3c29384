#include "sharding/transport/death_watch.h"

#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <strata/error.h>

namespace strata::sharding {

DeathWatch::DeathWatch(std::vector<detail::UniqueFd> pidfds, std::function<void(int rank)> died)
    : pidfds_(std::move(pidfds)), died_(std::move(died)) {
  if (std::none_of(pidfds_.begin(), pidfds_.end(), [](const detail::UniqueFd& fd) { return bool{fd}; })) return;
  stop_ = detail::UniqueFd(eventfd(0, EFD_CLOEXEC));
  if (!stop_) throw Error(ErrorCode::io, fmt::format("eventfd: {}", std::strerror(errno)));
  // The user's signals are for the user's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  thread_ = std::thread([this] { watch(); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

DeathWatch::~DeathWatch() {
  if (!thread_.joinable()) return;
  const std::uint64_t one = 1;
  [[maybe_unused]] const auto written = write(stop_.get(), &one, sizeof(one));
  thread_.join();
}

void DeathWatch::watch() {
  std::vector<pollfd> polled;
  for (const detail::UniqueFd& fd : pidfds_) polled.push_back({fd.get(), POLLIN, 0});  // poll skips those below 0
  polled.push_back({stop_.get(), POLLIN, 0});
  while (polled.back().revents == 0) {
    if (poll(polled.data(), polled.size(), -1) < 0) {
      if (errno == EINTR || errno == EAGAIN || errno == ENOMEM) continue;
      return;
    }
    for (std::size_t rank = 0; rank + 1 < polled.size(); ++rank) {
      if (polled[rank].revents == 0) continue;
      polled[rank] = {-1, 0, 0};
      died_(static_cast<int>(rank));
    }
  }
}

}  // namespace strata::sharding
