#include "progress_line.h"

#include <fmt/format.h>
#include <strata/bytes.h>

#include <algorithm>
#include <cstdio>

namespace llm {

namespace {

std::string format_seconds(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::clamp(seconds, 0.0, 1e9));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

}  // namespace

std::string to_string(const ProgressState& state) {
  std::string line =
      fmt::format("step {}/{}  loss {:.4f}  {:.0f} tokens/s  {} left  device {} of {}", state.step, state.steps,
                  state.loss, state.tokens_per_s, format_seconds(state.left_s),
                  strata::format_bytes(state.device_bytes), strata::format_bytes(state.device_budget_bytes));
  if (state.host_bytes > 0) line += fmt::format("  host {}", strata::format_bytes(state.host_bytes));
  if (state.nvme_bytes > 0) line += fmt::format("  nvme {}", strata::format_bytes(state.nvme_bytes));
  return line;
}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::show(const ProgressState& state) {
  if (mode_ == Mode::off) return;
  const auto now = std::chrono::steady_clock::now();
  const auto pause = mode_ == Mode::renewed ? std::chrono::milliseconds(100) : std::chrono::milliseconds(1000);
  if (state.step != state.steps && now - last_ < pause) return;
  last_ = now;
  const std::string line = to_string(state);
  if (mode_ == Mode::lines) {
    std::fprintf(stderr, "%s\n", line.c_str());
    return;
  }
  std::fprintf(stderr, "\r%-*s", static_cast<int>(shown_length_), line.c_str());
  std::fflush(stderr);
  shown_length_ = line.size();
}

void ProgressLine::clear() {
  if (shown_length_ > 0) std::fprintf(stderr, "\n");
  shown_length_ = 0;
}

}  // namespace llm
