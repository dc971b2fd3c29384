// How attention's scratch is laid out: extents in elements, and where each part of it begins.
#pragma once

#include <cstddef>

#include "kernels/attention.h"

namespace llm {

inline constexpr std::size_t query_block = 32;  // rows of queries whose scores are held at a time
inline constexpr std::size_t key_block = 64;    // a multiple of every panel's width
inline constexpr std::size_t tile_rows = 4;
inline constexpr std::size_t widest_vector = 16;

constexpr std::size_t round_up(std::size_t value, std::size_t step) { return (value + step - 1) / step * step; }

// Each part begins at a 64-byte boundary of `base`. With a null base only the extents are of use.
struct AttentionScratch {
  AttentionScratch(float* base, std::size_t seq, std::size_t head_dim)
      : padded_seq(round_up(seq, key_block)), padded_dim(round_up(head_dim, widest_vector)) {
    std::size_t at = 0;
    const auto take = [&](std::size_t count) {
      float* part = base == nullptr ? nullptr : base + at;
      at += round_up(count, widest_vector);
      return part;
    };
    keys = take(padded_seq * padded_dim);
    values = take(padded_seq * padded_dim);
    key_panels = take(padded_seq * padded_dim);
    value_panels = take(padded_seq * padded_dim);
    dkeys = take(padded_seq * padded_dim);
    dvalues = take(padded_seq * padded_dim);
    queries = take(query_block * padded_dim);
    outs = take(query_block * padded_dim);
    dqueries = take(query_block * padded_dim);
    scores = take(query_block * padded_seq);
    dscores = take(query_block * key_block);
    row_terms = take(2 * query_block);
    count = at;
  }

  std::size_t padded_seq, padded_dim;
  float* keys = nullptr;          // (padded_seq, padded_dim), turned
  float* values = nullptr;        // (padded_seq, padded_dim)
  float* key_panels = nullptr;    // transposed, see transpose_to_panels
  float* value_panels = nullptr;  // likewise; backward only
  float* dkeys = nullptr;         // (padded_seq, padded_dim), backward only
  float* dvalues = nullptr;       // likewise
  float* queries = nullptr;       // (query_block, padded_dim), turned and scaled
  float* outs = nullptr;          // (query_block, padded_dim): o, or do in the backward pass
  float* dqueries = nullptr;      // (query_block, padded_dim), backward only
  float* scores = nullptr;        // (query_block, padded_seq); backward uses (query_block, key_block) of it
  float* dscores = nullptr;       // (query_block, key_block), backward only
  float* row_terms = nullptr;     // log-sums, then sums of do * o, (query_block) each
  std::size_t count = 0;
};

}  // namespace llm
