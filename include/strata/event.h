// The completion of one asynchronous act, be it a collective, an update or a disk read. The only asynchronous word.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <utility>

namespace strata {

namespace detail {
class EventState;
}

// A small value: which lane, and how far along it. A default-constructed event is complete. Making and waiting for
// events allocates nothing. Threading: any thread, any number of waiters.
class Event {
 public:
  Event() = default;
  Event(std::shared_ptr<const detail::EventState> state, std::uint64_t ticket)
      : state_(std::move(state)), ticket_(ticket) {}

  bool ready() const;  // done or failed

  // Returns when the act is done; throws the Error that ended it, or ended an earlier act of its lane.
  void wait() const;

  // The same, but false when the time ran out.
  bool wait_for(std::chrono::nanoseconds time) const;

 private:
  std::shared_ptr<const detail::EventState> state_;
  std::uint64_t ticket_ = 0;
};

}  // namespace strata
