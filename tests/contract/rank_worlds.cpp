#include "contract/rank_worlds.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <exception>
#include <stdexcept>
#include <thread>

#include <strata/error.h>
#include <strata/rendezvous.h>

#include "sharding/exchange_arena.h"
#include "sharding/joined_ranks.h"

namespace strata::test {

namespace {

std::string say(const RankBody& body, Communicator& communicator) {
  try {
    return body(communicator);
  } catch (const std::exception& error) {
    return error.what();
  }
}

std::vector<std::string> run_threads(int size, const Deadlines& deadlines, const RankBody& body) {
  auto world = local_world(size, deadlines);
  std::vector<std::string> said(world.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < world.size(); ++rank) {
    threads.emplace_back([&, rank] {
      said[rank] = say(body, *world[rank]);
      world[rank].reset();
    });
  }
  for (std::thread& thread : threads) thread.join();
  return said;
}

}  // namespace

std::string_view to_string(WorldKind kind) {
  constexpr std::array<std::string_view, 3> names{"solo", "threads", "processes"};
  return names[static_cast<std::size_t>(kind)];
}

std::vector<std::string> run_world(WorldKind kind, int size, const Deadlines& deadlines, const RankBody& body) {
  if (kind == WorldKind::solo) {
    const auto world = solo_world();
    world->set_deadlines(deadlines);
    return {say(body, *world)};
  }
  if (kind == WorldKind::threads) return run_threads(size, deadlines, body);
  ProcessWorld world(size, deadlines, body);
  std::vector<std::string> said;
  for (int rank = 0; rank < size; ++rank) said.push_back(world.rank(rank).result(60));
  return said;
}

ProcessWorld::ProcessWorld(int size, const Deadlines& deadlines, const RankBody& body) {
  const detail::UniqueFd segment = sharding::make_segment_file();
  // Each rank reads the process ids of all from a pipe of its own, which the parent fills when all have started.
  std::vector<std::array<detail::UniqueFd, 2>> pipes(static_cast<std::size_t>(size));
  for (auto& ends : pipes) {
    std::array<int, 2> fds{};
    if (pipe(fds.data()) != 0) throw std::runtime_error("pipe");
    ends = {detail::UniqueFd(fds[0]), detail::UniqueFd(fds[1])};
  }
  for (int rank = 0; rank < size; ++rank) {
    ranks_.emplace_back([&, rank]() -> std::string {
      sharding::JoinedRanks joined;
      joined.rank = rank;
      joined.size = size;
      joined.segment = detail::UniqueFd(dup(segment.get()));
      joined.peer_pids.resize(static_cast<std::size_t>(size));
      const std::size_t bytes = sizeof(int) * static_cast<std::size_t>(size);
      if (read(pipes[static_cast<std::size_t>(rank)][0].get(), joined.peer_pids.data(), bytes) !=
          static_cast<ssize_t>(bytes)) {
        throw std::runtime_error("no process ids");
      }
      for (int peer = 0; peer < size; ++peer) {
        const int pid = joined.peer_pids[static_cast<std::size_t>(peer)];
        joined.peer_pidfds.emplace_back(peer == rank ? -1 : static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
      }
      const auto communicator = sharding::make_shm_communicator(std::move(joined), deadlines);
      return say(body, *communicator);
    });
  }
  std::vector<int> pids;
  for (const ForkedCall& call : ranks_) pids.push_back(call.pid());
  for (const auto& ends : pipes) {
    if (write(ends[1].get(), pids.data(), sizeof(int) * pids.size()) < 0) throw std::runtime_error("write");
  }
}

void Findings::require_error(const std::function<void()>& act, const std::vector<std::string>& parts) {
  try {
    act();
    require(false, "no error, expected one with '" + parts.front() + "'");
  } catch (const Error& error) {
    for (const std::string& part : parts) {
      require(std::string_view(error.what()).find(part) != std::string_view::npos,
              "no '" + part + "' in '" + error.what() + "'");
    }
  }
}

}  // namespace strata::test
