// What strata is told of the decoder: its units, their tensors, and how they begin.
#pragma once

#include <strata/engine.h>
#include <strata/unit.h>

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "config.h"

namespace llm {

// Full tensor names of one block, made once: the step path builds no strings.
struct BlockNames {
  explicit BlockNames(std::int64_t layer);
  std::string input_norm, q, k, v, o, post_norm, gate, up, down;
};

inline constexpr const char* embed_name = "model.embed_tokens.weight";
inline constexpr const char* norm_name = "model.norm.weight";
inline constexpr const char* head_name = "lm_head.weight";

// In forward order: the embedding, one unit a block, and the final norm with the head. A tied head has no tensor of its
// own: the embedding's unit is gathered a second time. Decay is on for *_proj.weight and lm_head.weight alone.
std::vector<strata::Unit> make_units(const Config& config);

// Norms are 1, all else is normal with deviation 0.02 (Hugging Face's default).
strata::Initializer make_initializer(std::uint64_t seed);

}  // namespace llm
