#include "run_totals.h"

#include <fmt/format.h>
#include <strata/bytes.h>

namespace llm {

namespace {

void add_traffic(strata::TierTraffic& sum, const strata::TierTraffic& step) {
  sum.loaded_bytes += step.loaded_bytes;
  sum.stored_bytes += step.stored_bytes;
  sum.busy_s += step.busy_s;
}

// Host memory is used in place where it is the compute device's own.
bool is_used(const strata::TierTraffic& traffic) { return traffic.loaded_bytes + traffic.stored_bytes > 0; }

std::string tier_line(const char* name, const strata::TierTraffic& traffic, double waited_s) {
  const double moved_bytes = static_cast<double>(traffic.loaded_bytes) + static_cast<double>(traffic.stored_bytes);
  const double gb_per_s = traffic.busy_s > 0 ? moved_bytes / traffic.busy_s / 1e9 : 0;
  return fmt::format("{:<6} {:>10} {:>10} {:>9.2f} s {:>7.2f} GB/s {:>11.2f} s\n", name,
                     strata::format_bytes(traffic.loaded_bytes), strata::format_bytes(traffic.stored_bytes),
                     traffic.busy_s, gb_per_s, waited_s);
}

}  // namespace

void RunTotals::add(const strata::StepReport& report, double seconds) {
  ++step_count_;
  seconds_ += seconds;
  const strata::Waits& waits = report.waits;
  waits_.gather_s += waits.gather_s;
  waits_.gradient_slot_s += waits.gradient_slot_s;
  waits_.reduce_s += waits.reduce_s;
  waits_.update_s += waits.update_s;
  waits_.activations_s += waits.activations_s;
  waits_.peer_s += waits.peer_s;
  waits_.host_s += waits.host_s;
  waits_.nvme_s += waits.nvme_s;
  add_traffic(host_, report.host);
  add_traffic(nvme_, report.nvme);
}

std::string RunTotals::table() const {
  if (step_count_ == 0) return {};
  std::string text = fmt::format("compute waited {:.2f} s of {:.2f} s in {} steps ({:.1f} %)\n", waits_.total_s(),
                                 seconds_, step_count_, seconds_ > 0 ? 100 * waits_.total_s() / seconds_ : 0.0);
  text += fmt::format(
      "  for gathers {:.2f}, gradient slots {:.2f}, reductions {:.2f}, updates {:.2f}, activations {:.2f} s; of that "
      "for "
      "peers {:.2f} s\n",
      waits_.gather_s, waits_.gradient_slot_s, waits_.reduce_s, waits_.update_s, waits_.activations_s, waits_.peer_s);
  if (!is_used(host_) && !is_used(nvme_)) return text;
  text += fmt::format("{:<6} {:>10} {:>10} {:>11} {:>12} {:>13}\n", "tier", "loaded", "stored", "busy", "rate",
                      "waited for");
  if (is_used(host_)) text += tier_line("host", host_, waits_.host_s);
  if (is_used(nvme_)) text += tier_line("nvme", nvme_, waits_.nvme_s);
  return text;
}

}  // namespace llm
