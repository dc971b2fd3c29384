#include <fmt/format.h>

#include <strata/error.h>
#include <strata/rendezvous.h>

#include "sharding/host_communicator.h"

namespace strata {

std::vector<std::unique_ptr<Communicator>> local_world(int size, const Deadlines& deadlines) {
  if (size < 1) throw Error(ErrorCode::invalid_argument, fmt::format("local_world of {} ranks; at least 1", size));
  const auto segment = std::make_shared<sharding::ExchangeSegment>(sharding::make_segment_file());
  std::vector<std::unique_ptr<Communicator>> world;
  for (int rank = 0; rank < size; ++rank) {
    world.push_back(std::make_unique<sharding::HostCommunicator>(segment, rank, size, deadlines));
  }
  return world;
}

}  // namespace strata
