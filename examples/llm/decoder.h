// The decoder's arithmetic, a unit at a time: what a training loop calls between gather and commit.
//
// Forward: embed, forward_block for each layer in order. Then train_head (loss and gradients at once: logits are never
// held for all tokens), or loss / logits. Backward: backward_block for each layer in reverse, backward_embed.
//
// With DecoderOptions::recompute only one block's activations exist. The caller copies block_input() after each
// forward_block but the last, and puts it back before that block's backward_block, which computes the rest again.
#pragma once

#include <strata/dtype.h>

#include <cstdint>
#include <memory>
#include <span>

#include "activations.h"
#include "config.h"
#include "parameters.h"
#include "products.h"

namespace llm {

// The parameters of the head: the final norm, and the table that logits are products with: lm_head.weight of the same
// unit, or for a tied head the embedding's.
struct HeadParameters {
  const ParameterSource& norm;
  const ParameterSource& table;
};

struct HeadGradients {
  GradientTarget& norm;
  GradientTarget& table;
};

struct LossSum {
  double mean = 0;        // over the targets that count; 0 when there is none
  std::size_t count = 0;  // targets that are not ignored_target
};

// Threading: one thread calls; the arithmetic runs on the OpenMP team of that thread as it was at construction.
class Decoder {
 public:
  virtual ~Decoder() = default;

  // tokens (B, T), with B and T within the capacity; each 0 to vocab_size - 1, or std::invalid_argument is thrown.
  virtual void embed(const ParameterSource& unit, std::span<const std::int32_t> tokens, std::size_t batch) = 0;
  virtual void forward_block(std::size_t layer, const ParameterSource& unit) = 0;

  // targets (B, T): what each position must predict, or ignored_target.
  virtual LossSum loss(const HeadParameters& parameters, std::span<const std::int32_t> targets) = 0;

  // out (count, V) of the rows [first, first + count) of (B T).
  virtual void logits(const HeadParameters& parameters, std::size_t first, std::size_t count, std::span<float> out) = 0;

  // Stores the gradients of loss_scale times the mean loss.
  virtual LossSum train_head(const HeadParameters& parameters, std::span<const std::int32_t> targets, double loss_scale,
                             const HeadGradients& gradients) = 0;
  virtual void backward_block(std::size_t layer, const ParameterSource& unit, GradientTarget& gradients) = 0;
  virtual void backward_embed(GradientTarget& gradients) = 0;

  // With recompute: the residual stream (B T, C) that a block receives.
  virtual bool recomputes() const = 0;
  virtual std::span<float> block_input() = 0;

  virtual Products& products() = 0;
  virtual std::size_t workspace_bytes() const = 0;  // activations and all scratch, oneDNN's included
};

// `operand` is what products read: f32 (parameters of another dtype are widened, a unit at a time) or bf16 (for bf16
// parameters). Gradients of another dtype than f32 pass through a staging unit.
struct DecoderOptions {
  std::size_t batch = 1, seq = 256;
  strata::Dtype parameters = strata::Dtype::f32;
  strata::Dtype gradients = strata::Dtype::f32;
  strata::Dtype operand = strata::Dtype::f32;
  bool recompute = false;  // least memory: a block's activations are computed again in the backward pass
};
std::unique_ptr<Decoder> make_decoder(const Config& config, const DecoderOptions& options);

// The faster operand type for bf16 parameters, by the kind of processor alone, so that every run of a machine has the
// same bits: bf16 where it has matrix tiles or full-rate bf16 dot products, else f32.
strata::Dtype fastest_operand(strata::Dtype parameters);

}  // namespace llm
