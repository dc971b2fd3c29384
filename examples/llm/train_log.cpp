#include "train_log.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>

namespace llm {

namespace {

nlohmann::ordered_json traffic(const strata::TierTraffic& tier) {
  return {{"loaded_bytes", tier.loaded_bytes}, {"stored_bytes", tier.stored_bytes}, {"busy_s", tier.busy_s}};
}

}  // namespace

TrainLog::TrainLog(const std::filesystem::path& file) : stream_(file, std::ios::trunc) {
  if (!stream_) throw std::invalid_argument(fmt::format("--log '{}' cannot be written", file.string()));
}

void TrainLog::write_step(const strata::StepReport& report, const StepRecord& record) {
  if (!stream_.is_open()) return;
  nlohmann::ordered_json row;
  row["step"] = report.step;
  row["loss"] = report.loss;
  row["grad_norm"] = report.grad_norm;
  row["applied"] = report.applied;
  if (!report.applied) row["reason"] = report.reason;
  row["lr"] = record.lr;
  row["tokens"] = static_cast<std::uint64_t>(report.weight);
  row["seconds"] = record.seconds;
  row["predicted_seconds"] = record.predicted_seconds;
  row["tokens_per_s"] = report.weight / record.seconds;
  row["device_bytes"] = report.device_bytes;
  row["host_bytes"] = report.host_bytes;
  row["nvme_bytes"] = report.nvme_bytes;
  row["loss_scale"] = report.loss_scale;
  row["moved_bytes"] = report.moved_bytes;
  row["host_traffic"] = traffic(report.host);
  row["nvme_traffic"] = traffic(report.nvme);
  row["waits_s"] = {{"gather", report.waits.gather_s},
                    {"gradient_slot", report.waits.gradient_slot_s},
                    {"reduce", report.waits.reduce_s},
                    {"update", report.waits.update_s},
                    {"activations", report.waits.activations_s},
                    {"peer", report.waits.peer_s},
                    {"host", report.waits.host_s},
                    {"nvme", report.waits.nvme_s}};
  stream_ << row.dump() << '\n' << std::flush;
}

void TrainLog::write_evaluation(std::uint64_t step, double eval_loss, std::uint64_t tokens) {
  if (!stream_.is_open()) return;
  nlohmann::ordered_json row;
  row["step"] = step;
  row["eval_loss"] = eval_loss;
  row["tokens"] = tokens;
  stream_ << row.dump() << '\n' << std::flush;
}

}  // namespace llm
