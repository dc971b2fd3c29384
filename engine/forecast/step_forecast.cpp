#include "engine/forecast/step_forecast.h"

#include <algorithm>

#include "engine/forecast/lanes.h"

namespace strata::engine {
namespace {

// The first steps have no update before them; from the third on each is like the last.
constexpr int steps_before = 2;
constexpr int steps_counted = 2;

double seconds(double bytes, double bytes_per_s) { return bytes_per_s > 0 ? bytes / bytes_per_s : 0; }

// What acts cost at this machine's speed.
class Costs {
 public:
  explicit Costs(const MachineSpeed& speed) : speed_(speed) {
    const double read_s = seconds(1, speed.disk_read_bytes_per_s), write_s = seconds(1, speed.disk_write_bytes_per_s);
    const double both_s = seconds(1, speed.disk_both_bytes_per_s);
    // Loads and stores that take turns would take the mean of both times; some disks do better at once, some worse.
    if (both_s > 0 && read_s + write_s > 0) mixing_ = both_s / ((read_s + write_s) / 2);
  }

  double disk(double load_bytes, double store_bytes) const {
    return mixing_ *
           (seconds(load_bytes, speed_.disk_read_bytes_per_s) + seconds(store_bytes, speed_.disk_write_bytes_per_s));
  }
  double gather(double bytes) const { return exchange(bytes, speed_.gather_bytes_per_s); }
  double reduce(double bytes) const { return exchange(bytes, speed_.reduce_bytes_per_s); }
  // What the processor does for bytes of the disk: to move them, and to check them.
  double handle(double bytes) const {
    return seconds(bytes, speed_.seal_bytes_per_s) + bytes * speed_.disk_processor_s_per_byte;
  }
  double update(const ChunkTraffic& chunk) const {
    return seconds(chunk.memory_bytes, speed_.memory_bytes_per_s) +
           seconds(chunk.split_bytes, speed_.split_bytes_per_s) + handle(chunk.load_bytes + chunk.store_bytes);
  }
  double agreement() const { return speed_.call_overhead_s; }

 private:
  double exchange(double bytes, double bytes_per_s) const {
    return bytes > 0 ? speed_.call_overhead_s + seconds(bytes, bytes_per_s) : 0;
  }

  const MachineSpeed& speed_;
  double mixing_ = 1;
};

// Several steps as acts, each lane one of the engine's threads or the disk's share of it.
class Steps {
 public:
  Steps(const StepTraffic& traffic, const MachineSpeed& speed)
      : traffic_(traffic),
        costs_(speed),
        updated_(traffic.units.size(), no_act),
        ready_(traffic.units.size(), no_act),
        stored_(traffic.units.size(), no_act) {}

  double period_s() {
    std::vector<std::size_t> ends;
    for (int step = 0; step < steps_before + steps_counted; ++step) {
      add_step();
      ends.push_back(agreed_);
    }
    const std::vector<double> times = lanes_.run();
    return (times[ends.back()] - times[ends[steps_before - 1]]) / steps_counted;
  }

 private:
  enum Lane : std::size_t { caller, communication, update, gather_loads, loads, stores, accumulators, lane_count };

  std::size_t add(Lane lane, double cost_s, std::size_t first, std::size_t second = no_act, std::size_t third = no_act,
                  std::size_t fourth = no_act) {
    const bool on_disk = lane >= gather_loads;
    return lanes_.add(lane, on_disk ? Resource::disk : Resource::processor, cost_s, {first, second, third, fourth});
  }

  void add_step() {
    const std::size_t unit_count = traffic_.units.size();
    order_.clear();
    for (std::uint32_t m = 0; m < traffic_.micro_batch_count; ++m) {
      for (std::size_t i = 0; i < unit_count; ++i) order_.push_back(i);
      for (std::size_t i = unit_count; i-- > 0;) order_.push_back(i);
    }
    gathered_.clear();
    gather_of_use_.assign(order_.size(), no_act);
    gathers_added_ = 0;
    last_call_ = agreed_;
    committed_.assign(unit_count, no_act);
    for (std::size_t use = 0; use < order_.size(); ++use) {
      while (gathers_added_ < std::min<std::size_t>(order_.size(), use + 1 + traffic_.prefetch)) add_gather();
      add_use(use);
    }
    for (std::size_t unit = 0; unit < unit_count; ++unit) {
      const double bytes = traffic_.units[unit].step_bytes;
      if (bytes > 0) last_exchange_ = add(communication, costs_.reduce(bytes), last_call_);
    }
    agreed_ = add(caller, costs_.agreement(), last_exchange_);
    pass_ended_ = last_update_;
    for (std::size_t unit = 0; unit < unit_count; ++unit) add_update(unit);
  }

  void add_gather() {
    const std::size_t use = gathers_added_++;
    const std::size_t unit = order_[use];
    const UnitTraffic& work = traffic_.units[unit];
    const auto held = std::find(gathered_.begin(), gathered_.end(), unit);
    const bool is_held = held != gathered_.end();
    if (is_held) gathered_.erase(held);
    gathered_.insert(gathered_.begin(), unit);
    if (gathered_.size() > std::max<std::size_t>(traffic_.gathered_count, 1)) gathered_.pop_back();
    if (is_held || work.gather_bytes <= 0) return;
    std::size_t loaded = no_act;
    if (work.gather_load_bytes > 0) {
      loaded = add(gather_loads, costs_.disk(work.gather_load_bytes, 0), last_call_, stored_[unit]);
    }
    const double cost_s = costs_.gather(work.gather_bytes) + costs_.handle(work.gather_load_bytes);
    last_exchange_ = add(communication, cost_s, last_call_, loaded, updated_[unit]);
    gather_of_use_[use] = last_exchange_;
  }

  void add_use(std::size_t use) {
    const std::size_t unit = order_[use];
    const UnitTraffic& work = traffic_.units[unit];
    const std::size_t pass = order_.size() / traffic_.micro_batch_count;
    const bool backward = use % pass >= pass / 2;
    last_call_ = add(caller, backward ? work.backward_s : work.forward_s, gather_of_use_[use], ready_[unit]);
    if (!backward || work.commit_bytes <= 0) return;
    const double loaded_bytes = committed_[unit] == no_act ? 0 : work.commit_load_bytes;
    const double cost_s = costs_.reduce(work.commit_bytes) + costs_.handle(loaded_bytes + work.commit_store_bytes);
    last_exchange_ = add(communication, cost_s, last_call_, updated_[unit]);
    if (work.commit_store_bytes <= 0) return;
    committed_[unit] = add(accumulators, costs_.disk(loaded_bytes, work.commit_store_bytes), last_exchange_);
  }

  void add_update(std::size_t unit) {
    const UnitTraffic& work = traffic_.units[unit];
    const std::size_t stored_before = stored_[unit];
    for (const ChunkTraffic& chunk : work.chunks) {
      for (std::uint32_t i = 0; i < chunk.count; ++i) {
        std::size_t loaded = no_act;
        const bool through_slot = chunk.load_bytes > 0 || chunk.store_bytes > 0;
        if (through_slot) loaded = add_load(unit, chunk, stored_before);
        updated_[unit] = last_update_ = add(update, costs_.update(chunk), agreed_, loaded);
        if (!through_slot) continue;
        stored_[unit] = add(stores, costs_.disk(0, chunk.store_bytes), updated_[unit]);
        slot_stores_.push_back(stored_[unit]);
      }
    }
    ready_[unit] = updated_[unit];
    if (work.publish_bytes > 0) {
      ready_[unit] = last_exchange_ = add(communication, costs_.gather(work.publish_bytes), updated_[unit]);
    }
  }

  // As soon as its slot is free and, unless it may be loaded ahead, the step is agreed.
  std::size_t add_load(std::size_t unit, const ChunkTraffic& chunk, std::size_t stored_before) {
    const std::size_t slots = std::max<std::size_t>(traffic_.slot_count, 1);
    const std::size_t number = slot_stores_.size();
    const std::size_t freed = number >= slots ? slot_stores_[number - slots] : no_act;
    // The first slots are filled again when the update before has ended.
    const bool ahead = number - first_of_step() < slots && committed_[unit] == no_act;
    return add(loads, costs_.disk(chunk.load_bytes, 0), ahead ? pass_ended_ : agreed_, freed, committed_[unit],
               stored_before);
  }

  std::size_t first_of_step() {
    if (step_begun_at_ != agreed_) {
      step_begun_at_ = agreed_;
      step_first_ = slot_stores_.size();
    }
    return step_first_;
  }

  const StepTraffic& traffic_;
  const Costs costs_;
  Lanes lanes_{lane_count};

  std::vector<std::size_t> updated_, ready_, stored_;  // by unit: the last act that did it
  std::vector<std::size_t> committed_;                 // by unit: the last store of its accumulators
  std::vector<std::size_t> slot_stores_;               // of each chunk that went through a slot
  std::size_t agreed_ = no_act, last_call_ = no_act, last_exchange_ = no_act;
  std::size_t last_update_ = no_act, pass_ended_ = no_act;  // of this step's update; the one before
  std::size_t step_begun_at_ = no_act, step_first_ = 0;

  std::vector<std::size_t> order_;     // units as the caller uses them
  std::vector<std::size_t> gathered_;  // units, the last used first
  std::vector<std::size_t> gather_of_use_;
  std::size_t gathers_added_ = 0;
};

}  // namespace

double predict_step_s(const StepTraffic& traffic, const MachineSpeed& speed) {
  return Steps(traffic, speed).period_s();
}

}  // namespace strata::engine
