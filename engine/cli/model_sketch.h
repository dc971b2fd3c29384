// A model of which no more is known than its size.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include <strata/optimizer.h>
#include <strata/unit.h>

namespace strata::cli {

struct ModelSketch {
  std::uint64_t parameter_count = 0;
  std::uint32_t unit_count = 0;       // the embedding apart
  std::uint64_t embedding_count = 0;  // parameters of it; 0: the model has none
  std::uint32_t moment_count = 2;     // of the optimizer
  double arithmetic_s = 0;            // one micro-batch of one rank, forward and backward; 0 = unknown
};

// Units alike, before them the embedding. A third of the arithmetic is forward, and each unit has its share of it by
// size. Throws Error{invalid_argument} for a sketch that no model fits.
std::vector<Unit> sketched_units(const ModelSketch& sketch);

// Has moments and computes nothing.
std::shared_ptr<const Optimizer> sketched_optimizer(std::uint32_t moment_count);

// "7B", "1.3B", "350M", "10k", "124000000": K, M, B and T are powers of 1000. Nothing when it is none of these.
std::optional<std::uint64_t> read_count(std::string_view text);

}  // namespace strata::cli
