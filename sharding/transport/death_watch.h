// One thread per process that learns of the death of peers at once, whatever they were doing.
#pragma once

#include <functional>
#include <thread>
#include <vector>

#include <strata/detail/unique_fd.h>

namespace strata::sharding {

class DeathWatch {
 public:
  // Calls died(rank) once for each peer whose process ends, on its own thread, until it is destroyed. Descriptors by
  // rank; those that are empty are not watched, and without any there is no thread. `died` must not throw.
  DeathWatch(std::vector<detail::UniqueFd> pidfds, std::function<void(int rank)> died);
  DeathWatch(const DeathWatch&) = delete;
  DeathWatch& operator=(const DeathWatch&) = delete;
  ~DeathWatch();

 private:
  void watch();

  const std::vector<detail::UniqueFd> pidfds_;
  const std::function<void(int)> died_;
  detail::UniqueFd stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace strata::sharding
