#include "decoder.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/attention.h"
#include "kernels/cross_entropy.h"
#include "kernels/embedding.h"
#include "kernels/rmsnorm.h"
#include "kernels/swiglu.h"
#include "units.h"
#include "workspace.h"

namespace llm {

namespace {

std::size_t measured_bytes(const Config& config, const Capacity& capacity, strata::Dtype operand) {
  Workspace measure;
  if (operand == strata::Dtype::bf16) {
    const Activations<strata::bf16> unused(config, capacity, measure);
  } else {
    const Activations<float> unused(config, capacity, measure);
  }
  return measure.taken_bytes();
}

template <class A>
class TypedDecoder final : public Decoder {
 public:
  TypedDecoder(const Config& config, const Capacity& capacity, std::size_t bytes)
      : config_(config),
        capacity_(capacity),
        bytes_(bytes),
        workspace_(bytes),
        at_(config, capacity, workspace_),
        operands_({at_.widened, at_.widened_count}),
        room_({at_.gradients, at_.gradients_count}) {
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) names_.emplace_back(layer);
    fill_rotary_tables(capacity.seq, head_dim_, config.rope_theta, at_.cosine, at_.sine);
  }

  void embed(const ParameterSource& unit, std::span<const std::int32_t> tokens, std::size_t batch) override {
    begin(tokens, batch);
    embedding_forward(unit.bytes(embed_name).data(), unit.dtype(), tokens_, hidden_, at_.layers[0].x);
  }

  void forward_block(std::size_t layer, const ParameterSource& unit) override {
    LayerActivations<A>& a = at_.layers[layer];
    const BlockNames& names = names_[layer];
    operands_.begin();
    // Into the residual stream goes what the layer before left in delta. The first one gets the embedding as it is.
    norm(layer == 0 ? a.x : at_.layers[layer - 1].x_middle, layer == 0 ? nullptr : at_.delta,
         operands_.vector(unit, names.input_norm, hidden_), a.x, a.h_attention, a.rms_attention);
    attend_and_widen(a, unit, names);
    swiglu_forward<A>({rows_, inner_, a.gate_up, nullptr, at_.act});
    const Matrix<const A> act(at_.act, rows_, inner_);
    products_.forward<A, A>(act, operands_.matrix(unit, names.down, hidden_, inner_), {at_.delta, rows_, hidden_});
    computed_layer_ = layer;
  }

  LossSum loss(const HeadParameters& parameters, std::span<const std::int32_t> targets) override {
    const Matrix<const A> table = begin_head(parameters, targets);
    for_head_rows([&](std::size_t first, std::size_t count) {
      products_.forward<A, float>(h_final(first, count), table, {at_.logits, count, vocab_});
      cross_entropy<A>({count, vocab_, at_.logits, targets.subspan(first, count), 0, nullptr, at_.losses + first});
    });
    return sum_losses(targets);
  }

  void logits(const HeadParameters& parameters, std::size_t first, std::size_t count, std::span<float> out) override {
    const Matrix<const A> table = begin_head(parameters, {});
    if (out.size() != count * vocab_) throw std::invalid_argument("logits: the room is not (count, vocab_size)");
    products_.forward<A, float>(h_final(first, count), table, {out.data(), count, vocab_});
  }

  LossSum train_head(const HeadParameters& parameters, std::span<const std::int32_t> targets, double loss_scale,
                     const HeadGradients& gradients) override {
    const Matrix<const A> table = begin_head(parameters, targets);
    const char* table_name = config_.tie_word_embeddings ? embed_name : head_name;
    const Matrix<float> dtable = room_.matrix(gradients.table, table_name, vocab_, hidden_);
    const std::size_t count_all = counted(targets);
    const float scale = count_all == 0 ? 0.0f : static_cast<float>(loss_scale / static_cast<double>(count_all));
    for_head_rows([&](std::size_t first, std::size_t count) {
      products_.forward<A, float>(h_final(first, count), table, {at_.logits, count, vocab_});
      cross_entropy<A>(
          {count, vocab_, at_.logits, targets.subspan(first, count), scale, at_.dlogits, at_.losses + first});
      const Matrix<const A> dlogits(at_.dlogits, count, vocab_);
      products_.input_gradient<A, float>(dlogits, table, {at_.dh + first * hidden_, count, hidden_}, Accumulate::store);
      products_.weight_gradient<A>(dlogits, h_final(first, count), dtable,
                                   first == 0 ? Accumulate::store : Accumulate::add);
    });
    norm_back(final_weight_, at_.x_final, at_.rms_final, false, room_.vector(gradients.norm, norm_name, hidden_));
    room_.finish();
    return sum_losses(targets);
  }

  void backward_block(std::size_t layer, const ParameterSource& unit, GradientTarget& gradients) override {
    LayerActivations<A>& a = at_.layers[layer];
    const BlockNames& names = names_[layer];
    if (capacity_.recompute && layer != computed_layer_) recompute(a, unit, names);
    computed_layer_ = no_layer;  // the gradients below take the place of what they are computed from
    operands_.begin();
    const Matrix<const A> dx(at_.dx_operand, rows_, hidden_);

    const Matrix<const A> down = operands_.matrix(unit, names.down, hidden_, inner_);
    products_.input_gradient<A, A>(dx, down, {at_.dact, rows_, inner_}, Accumulate::store);
    swiglu_backward<A>({rows_, inner_, a.gate_up, at_.dact, at_.act});
    products_.weight_gradient<A>(dx, {at_.act, rows_, inner_}, room_.matrix(gradients, names.down, hidden_, inner_),
                                 Accumulate::store);
    stacked_backward(gate_up(unit, names), Matrix<const A>(a.gate_up, rows_, 2 * inner_));
    stacked_weight_gradients(std::array{room_.matrix(gradients, names.gate, inner_, hidden_),
                                        room_.matrix(gradients, names.up, inner_, hidden_)},
                             Matrix<const A>(a.gate_up, rows_, 2 * inner_), a.h_mlp);
    norm_back(operands_.vector(unit, names.post_norm, hidden_), a.x_middle, a.rms_mlp, true,
              room_.vector(gradients, names.post_norm, hidden_));

    const Matrix<const A> o = operands_.matrix(unit, names.o, hidden_, query_);
    products_.input_gradient<A, A>(dx, o, {at_.delta, rows_, query_}, Accumulate::store);
    products_.weight_gradient<A>(dx, {a.attended, rows_, query_}, room_.matrix(gradients, names.o, hidden_, query_),
                                 Accumulate::store);
    attention_backward(attention(a));
    stacked_backward(qkv(unit, names), Matrix<const A>(a.qkv, rows_, qkv_columns_));
    stacked_weight_gradients(std::array{room_.matrix(gradients, names.q, query_, hidden_),
                                        room_.matrix(gradients, names.k, key_value_, hidden_),
                                        room_.matrix(gradients, names.v, key_value_, hidden_)},
                             Matrix<const A>(a.qkv, rows_, qkv_columns_), a.h_attention);
    norm_back(operands_.vector(unit, names.input_norm, hidden_), a.x, a.rms_attention, true,
              room_.vector(gradients, names.input_norm, hidden_));
    room_.finish();
  }

  void backward_embed(GradientTarget& gradients) override {
    const Matrix<float> dtable = room_.matrix(gradients, embed_name, vocab_, hidden_);
    embedding_backward(at_.dx, tokens_, hidden_, {dtable.data, vocab_ * hidden_});
    room_.finish();
  }

  bool recomputes() const override { return capacity_.recompute; }
  std::span<float> block_input() override { return {at_.layers[0].x, rows_ * hidden_}; }

  Products& products() override { return products_; }
  std::size_t workspace_bytes() const override { return bytes_ + products_.scratch_bytes(); }

 private:
  void begin(std::span<const std::int32_t> tokens, std::size_t batch) {
    if (batch == 0 || tokens.empty() || tokens.size() % batch != 0 || batch > capacity_.batch ||
        tokens.size() / batch > capacity_.seq) {
      throw std::invalid_argument(fmt::format("{} tokens in {} sequences: at most {} sequences of {} were planned",
                                              tokens.size(), batch, capacity_.batch, capacity_.seq));
    }
    for (const std::int32_t token : tokens) {
      if (token < 0 || token >= config_.vocab_size) {
        throw std::invalid_argument(fmt::format("token {} is not within 0 to {}", token, config_.vocab_size - 1));
      }
    }
    tokens_.assign(tokens.begin(), tokens.end());
    batch_ = batch;
    rows_ = tokens.size();
  }

  // A block from its normalised input to what swiglu takes.
  void attend_and_widen(LayerActivations<A>& a, const ParameterSource& unit, const BlockNames& names) {
    stacked_forward(qkv(unit, names), a.h_attention, Matrix<A>(a.qkv, rows_, qkv_columns_));
    attention_forward(attention(a));
    const Matrix<const A> attended(a.attended, rows_, query_);
    products_.forward<A, A>(attended, operands_.matrix(unit, names.o, hidden_, query_), {at_.delta, rows_, hidden_});

    norm(a.x, at_.delta, operands_.vector(unit, names.post_norm, hidden_), a.x_middle, a.h_mlp, a.rms_mlp);
    stacked_forward(gate_up(unit, names), a.h_mlp, Matrix<A>(a.gate_up, rows_, 2 * inner_));
  }

  // All that backward_block reads of a block, from its input; the rest backward_block computes anyway.
  void recompute(LayerActivations<A>& a, const ParameterSource& unit, const BlockNames& names) {
    operands_.begin();
    norm(a.x, nullptr, operands_.vector(unit, names.input_norm, hidden_), a.x, a.h_attention, a.rms_attention);
    attend_and_widen(a, unit, names);
  }

  // The sum of the last residual, its norm, and the table that h_final is multiplied with.
  Matrix<const A> begin_head(const HeadParameters& parameters, std::span<const std::int32_t> targets) {
    if (!targets.empty() && targets.size() != rows_) throw std::invalid_argument("targets are not as many as tokens");
    for (const std::int32_t target : targets) {
      if (target != ignored_target && (target < 0 || target >= config_.vocab_size)) {
        throw std::invalid_argument(fmt::format("target {} is not within 0 to {}", target, config_.vocab_size - 1));
      }
    }
    operands_.begin();
    final_weight_ = operands_.vector(parameters.norm, norm_name, hidden_);
    norm(at_.layers.back().x_middle, at_.delta, final_weight_, at_.x_final, at_.h_final, at_.rms_final);
    return operands_.matrix(parameters.table, config_.tie_word_embeddings ? embed_name : head_name, vocab_, hidden_);
  }

  template <class Work>
  void for_head_rows(const Work& work) {
    for (std::size_t first = 0; first < rows_; first += at_.head_rows)
      work(first, std::min(at_.head_rows, rows_ - first));
  }

  Matrix<const A> h_final(std::size_t first, std::size_t count) const {
    return {at_.h_final + first * hidden_, count, hidden_};
  }

  static std::size_t counted(std::span<const std::int32_t> targets) {
    return targets.size() - static_cast<std::size_t>(std::count(targets.begin(), targets.end(), ignored_target));
  }

  LossSum sum_losses(std::span<const std::int32_t> targets) const {
    double sum = 0;
    for (std::size_t row = 0; row < rows_; ++row) sum += at_.losses[row];
    const std::size_t count = counted(targets);
    return {count == 0 ? 0.0 : sum / static_cast<double>(count), count};
  }

  void norm(const float* x, const A* delta, const float* weight, float* sum, A* h, float* reciprocal_rms) {
    norm_forward<A>(
        {rows_, hidden_, x, delta, weight, static_cast<float>(config_.rms_norm_eps), sum, h, reciprocal_rms});
  }

  void norm_back(const float* weight, const float* x, const float* reciprocal_rms, bool accumulate, float* dweight) {
    norm_backward<A>({rows_, hidden_, at_.dh, x, reciprocal_rms, weight, accumulate, at_.dx, at_.dx_operand,
                      at_.norm_partials, dweight});
  }

  Attention<A> attention(const LayerActivations<A>& a) const {
    const AttentionShape shape{batch_, rows_ / batch_, static_cast<std::size_t>(config_.num_attention_heads),
                               static_cast<std::size_t>(config_.num_key_value_heads), head_dim_};
    return {shape, {at_.cosine, at_.sine}, a.qkv, a.attended, a.log_sums, at_.delta, at_.attention_scratch};
  }

  Stacked<const A, 3> qkv(const ParameterSource& unit, const BlockNames& names) {
    return Stacked<const A, 3>({operands_.matrix(unit, names.q, query_, hidden_),
                                operands_.matrix(unit, names.k, key_value_, hidden_),
                                operands_.matrix(unit, names.v, key_value_, hidden_)});
  }

  Stacked<const A, 2> gate_up(const ParameterSource& unit, const BlockNames& names) {
    return Stacked<const A, 2>(
        {operands_.matrix(unit, names.gate, inner_, hidden_), operands_.matrix(unit, names.up, inner_, hidden_)});
  }

  // y (B T, all out) = h (B T, C) w', the parts side by side.
  template <std::size_t count>
  void stacked_forward(const Stacked<const A, count>& weights, const A* h, const Matrix<A>& y) {
    std::size_t column = 0;
    for (const Matrix<const A>& w : weights) {
      products_.forward<A, A>({h, rows_, hidden_}, w, y.column_range(column, w.rows));
      column += w.rows;
    }
  }

  // dh (B T, C) = dy (B T, all out) w
  template <std::size_t count>
  void stacked_backward(const Stacked<const A, count>& weights, const Matrix<const A>& dy) {
    std::size_t column = 0;
    for (const Matrix<const A>& w : weights) {
      products_.input_gradient<A, float>(dy.column_range(column, w.rows), w, {at_.dh, rows_, hidden_},
                                         column == 0 ? Accumulate::store : Accumulate::add);
      column += w.rows;
    }
  }

  // dw (out, C) = dy' h for each part
  template <std::size_t count>
  void stacked_weight_gradients(const std::array<Matrix<float>, count>& gradients, const Matrix<const A>& dy,
                                const A* h) {
    std::size_t column = 0;
    for (const Matrix<float>& dw : Stacked<float, count>(gradients)) {
      products_.weight_gradient<A>(dy.column_range(column, dw.rows), {h, rows_, hidden_}, dw, Accumulate::store);
      column += dw.rows;
    }
  }

  const Config config_;
  const Capacity capacity_;
  const std::size_t bytes_;
  const std::size_t hidden_ = static_cast<std::size_t>(config_.hidden_size);
  const std::size_t inner_ = static_cast<std::size_t>(config_.intermediate_size);
  const std::size_t vocab_ = static_cast<std::size_t>(config_.vocab_size);
  const std::size_t head_dim_ = static_cast<std::size_t>(config_.head_dim);
  const std::size_t query_ = static_cast<std::size_t>(config_.query_size());
  const std::size_t key_value_ = static_cast<std::size_t>(config_.key_value_size());
  const std::size_t qkv_columns_ = static_cast<std::size_t>(config_.qkv_size());
  Workspace workspace_;
  Activations<A> at_;
  Operands<A> operands_;
  GradientRoom room_;
  Products products_;
  std::vector<BlockNames> names_;
  std::vector<std::int32_t> tokens_;  // (B, T) of the current pass
  std::size_t batch_ = 0, rows_ = 0;
  static constexpr std::size_t no_layer = ~std::size_t{0};
  std::size_t computed_layer_ = no_layer;  // whose activations are there; with recompute those of one at most
  const float* final_weight_ = nullptr;
};

}  // namespace

std::unique_ptr<Decoder> make_decoder(const Config& config, const DecoderOptions& options) {
  validate(config);
  if (options.operand == strata::Dtype::bf16 && options.parameters != strata::Dtype::bf16) {
    throw std::invalid_argument(
        fmt::format("bf16 products need bf16 parameters, not {}", strata::to_string(options.parameters)));
  }
  Capacity capacity;
  capacity.batch = options.batch;
  capacity.seq = options.seq;
  capacity.widened = options.operand == strata::Dtype::f32 && options.parameters != strata::Dtype::f32;
  capacity.staged_gradients = options.gradients != strata::Dtype::f32;
  capacity.recompute = options.recompute;
  const std::size_t bytes = measured_bytes(config, capacity, options.operand);
  if (options.operand == strata::Dtype::bf16) {
    return std::make_unique<TypedDecoder<strata::bf16>>(config, capacity, bytes);
  }
  return std::make_unique<TypedDecoder<float>>(config, capacity, bytes);
}

}  // namespace llm
