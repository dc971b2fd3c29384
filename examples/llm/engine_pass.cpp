#include "engine_pass.h"

#include <algorithm>

#include "kernels/cross_entropy.h"

namespace llm {

EnginePass::EnginePass(const Config& config, strata::Engine& engine, Decoder& decoder)
    : config_(config),
      engine_(engine),
      decoder_(decoder),
      units_(engine.forward_order().begin(), engine.forward_order().end()) {}

void EnginePass::forward(std::span<const std::int32_t> tokens, std::size_t sequence_count, Inputs inputs) {
  {
    const strata::ParamLease embed = engine_.gather(units_.front());
    decoder_.embed(LeasedParameters(embed), tokens, sequence_count);
  }
  for (std::size_t layer = 0; layer < layer_count(); ++layer) {
    const strata::ParamLease block = engine_.gather(units_[layer + 1]);
    decoder_.forward_block(layer, LeasedParameters(block));
    if (inputs == Inputs::stashed && layer + 1 < layer_count()) {
      engine_.stash(layer, std::as_bytes(decoder_.block_input()));
    }
  }
}

void EnginePass::train(const SequenceBatch& batch, std::size_t sequence_count) {
  const auto ignored = std::count(batch.targets.begin(), batch.targets.end(), ignored_target);
  engine_.micro_batch({.weight = static_cast<double>(batch.targets.size()) - static_cast<double>(ignored)});
  const Inputs inputs = decoder_.recomputes() ? Inputs::stashed : Inputs::dropped;
  forward(batch.tokens, sequence_count, inputs);
  {
    // The head's loss and gradients are one pass. Tied, it reads and feeds the embedding's unit as well.
    const strata::ParamLease norm = engine_.gather(units_.back());
    strata::GradLease norm_gradients = engine_.gradients(units_.back());
    const LeasedParameters norm_parameters(norm);
    LeasedGradients norm_target(norm_gradients);
    LossSum loss;
    if (config_.tie_word_embeddings) {
      const strata::ParamLease table = engine_.gather(units_.front());
      strata::GradLease table_gradients = engine_.gradients(units_.front());
      LeasedGradients table_target(table_gradients);
      loss = decoder_.train_head({norm_parameters, LeasedParameters(table)}, batch.targets, engine_.loss_scale(),
                                 {norm_target, table_target});
      table_gradients.commit();
    } else {
      loss = decoder_.train_head({norm_parameters, norm_parameters}, batch.targets, engine_.loss_scale(),
                                 {norm_target, norm_target});
    }
    norm_gradients.commit();
    engine_.record_loss(loss.mean);
  }
  for (std::size_t layer = layer_count(); layer-- > 0;) {
    if (inputs == Inputs::stashed && layer + 1 < layer_count()) {
      engine_.fetch(layer, std::as_writable_bytes(decoder_.block_input()));
    }
    const strata::ParamLease block = engine_.gather(units_[layer + 1]);
    strata::GradLease gradients = engine_.gradients(units_[layer + 1]);
    LeasedGradients target(gradients);
    decoder_.backward_block(layer, LeasedParameters(block), target);
    gradients.commit();
  }
  strata::GradLease gradients = engine_.gradients(units_.front());
  LeasedGradients target(gradients);
  decoder_.backward_embed(target);
  gradients.commit();
}

LossSum EnginePass::evaluate(const SequenceBatch& batch, std::size_t sequence_count) {
  forward(batch.tokens, sequence_count, Inputs::dropped);
  const strata::ParamLease norm = engine_.gather(units_.back());
  const LeasedParameters norm_parameters(norm);
  if (!config_.tie_word_embeddings) return decoder_.loss({norm_parameters, norm_parameters}, batch.targets);
  const strata::ParamLease table = engine_.gather(units_.front());
  return decoder_.loss({norm_parameters, LeasedParameters(table)}, batch.targets);
}

void EnginePass::gather_all() {
  for (const strata::Unit& unit : units_) engine_.gather(unit);
  if (config_.tie_word_embeddings) engine_.gather(units_.front());
}

void EnginePass::next_logits(std::span<const std::int32_t> tokens, std::size_t last, std::span<float> out) {
  if (out.empty()) return gather_all();
  forward(tokens, 1, Inputs::dropped);
  const strata::ParamLease norm = engine_.gather(units_.back());
  const LeasedParameters norm_parameters(norm);
  if (!config_.tie_word_embeddings) return decoder_.logits({norm_parameters, norm_parameters}, last, 1, out);
  const strata::ParamLease table = engine_.gather(units_.front());
  decoder_.logits({norm_parameters, LeasedParameters(table)}, last, 1, out);
}

}  // namespace llm
