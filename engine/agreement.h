// What the ranks tell each other once a step, and what follows from it on all of them alike.
//
//   payload of a rank = AgreementHead | per unit: u64 node count | room for the most norm nodes that a rank can have
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <strata/engine.h>
#include "sharding/flat_layout.h"
#include "sharding/norm_tree.h"

namespace strata::engine {

inline constexpr std::uint32_t nobody = 0xFFFFFFFF;

struct AgreementHead {
  double weight = 0;       // sum of this rank's micro-batch weights
  double loss_sum = 0;     // sum of weight * loss
  double loss_weight = 0;  // of the micro-batches with a recorded loss
  std::uint64_t clip_bits = 0;
  std::uint64_t nonfinite_element = 0;  // in the tensor
  std::uint32_t lr_bits = 0;
  std::uint32_t discarded_unit = nobody;
  std::uint32_t nonfinite_unit = nobody;
  std::uint32_t nonfinite_tensor = 0;     // in the unit
  std::uint32_t nonfinite_rank = nobody;  // nobody: the sum over ranks or micro-batches overflowed
  std::uint32_t reserved = 0;
};

inline constexpr std::size_t agreement_head_bytes = sizeof(AgreementHead);

// Room for one rank's norm nodes of a unit.
std::size_t agreement_node_bytes(const sharding::FlatLayout& layout);

// What all ranks have decided.
struct Verdict {
  Skip skip = Skip::none;
  std::string reason;
  double weight = 0;
  double loss = 0;
  double grad_norm = 0;      // of the weighted mean, before clipping
  float gradient_scale = 1;  // clip, 1 / weight and 1 / loss scale in one
};

struct AgreementInput {
  std::span<const std::byte> payloads;  // of all ranks, one behind the other
  std::span<const sharding::FlatLayout> layouts;
  std::span<const Unit> units;
  std::span<const std::uint8_t> reduced;  // by unit: whether it has gradients in this step
  int world_size = 1;
  double loss_scale = 1;
};

// Writes the norm nodes of `rank`'s leaves of all units behind the head of its payload. Uses the leaves as scratch.
void write_norm_nodes(std::span<std::byte> payload, std::span<const sharding::FlatLayout> layouts,
                      std::span<const std::span<double>> leaves, int rank);

// The same on every rank. Throws mismatch when ranks gave other rates or clip norms, naming both. `scratch` grows to
// what the largest unit needs and is kept for the next step.
Verdict agree(const AgreementInput& input, std::vector<sharding::NormNode>& scratch);

}  // namespace strata::engine
