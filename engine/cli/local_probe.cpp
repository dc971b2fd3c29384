#include "engine/cli/local_probe.h"

#include <exception>
#include <thread>
#include <vector>

#include <strata/rendezvous.h>

namespace strata::cli {

MachineSpeed probe_this_host(int rank_count, const Options& options) {
  auto ranks = local_world(rank_count);
  std::vector<MachineSpeed> speeds(ranks.size());
  std::vector<std::exception_ptr> failures(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      try {
        speeds[rank] = probe_machine(*ranks[rank], options);
      } catch (...) {
        failures[rank] = std::current_exception();
        ranks[rank].reset();  // its peers need not wait for it
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& failure : failures) {
    if (failure) std::rethrow_exception(failure);
  }
  return speeds[0];
}

}  // namespace strata::cli
