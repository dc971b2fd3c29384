// A wait of the caller's and what it was for: the parts during which peers had not come, and during which the lanes
// waited for the disk.
#pragma once

#include <algorithm>
#include <chrono>

#include "engine/context.h"

namespace strata::engine {

class CallerWait {
 public:
  explicit CallerWait(EngineContext& context) : context_(context), peer_s_before_(peer_s()), disk_s_before_(disk_s()) {}

  // Adds the parts to the context's; the seconds of the whole.
  double end() const {
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count();
    context_.peer_waited_s += std::min(seconds, peer_s() - peer_s_before_);
    context_.nvme_waited_s += std::min(seconds, disk_s() - disk_s_before_);
    return seconds;
  }

 private:
  double peer_s() const { return context_.communicator->counters().peer_wait_s; }
  double disk_s() const { return context_.update_disk_waits.seconds() + context_.comm_disk_waits.seconds(); }

  EngineContext& context_;
  const double peer_s_before_;
  const double disk_s_before_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace strata::engine
