#include "engine/context.h"

#include "engine/caller_wait.h"

namespace strata::engine {

std::byte* EngineMemory::published() const {
  return published_exchange.bytes().empty() ? published_private.bytes().data() : published_exchange.bytes().data();
}

std::byte* EngineMemory::grad_slots() const {
  return grad_slots_exchange.bytes().empty() ? grad_slots_private.bytes().data() : grad_slots_exchange.bytes().data();
}

std::byte* EngineMemory::accumulators() const {
  return accumulators_exchange.bytes().empty() ? accumulators_private.bytes().data()
                                               : accumulators_exchange.bytes().data();
}

double EngineContext::timed_wait(const Event& event) {
  if (event.ready()) {
    event.wait();  // throws if it has failed
    return 0;
  }
  const CallerWait wait(*this);
  event.wait();
  return wait.end();
}

void EngineContext::wait_for_disk(const Event& event) {
  if (event.ready()) return event.wait();  // throws if it has failed
  const WaitMeter::Scope scope(comm_disk_waits);
  comm_lane->wait_with_idle(event);
}

void EngineContext::adopt(EngineContext&& other) {
  memory.sealed.reset();
  memory.nvme.reset();  // ends what is under way, before the memory that it reads and writes goes
  layouts = std::move(other.layouts);
  states = std::move(other.states);
  options = std::move(other.options);
  plan = std::move(other.plan);
  needs = std::move(other.needs);
  placement = std::move(other.placement);
  memory = std::move(other.memory);
}

void EngineContext::note_call(std::string_view act, std::size_t unit) {
  last_act = act;
  last_unit = unit;
  for (const char letter : act) caller_hash = mix_hash(caller_hash, static_cast<unsigned char>(letter));
  caller_hash = mix_hash(caller_hash, unit);
}

}  // namespace strata::engine
