// The decoder once more, by its definition: plain loops over any scalar, whole matrices of scores, everything kept.
// Slow and simple, to hold the fast one against, and itself held against difference quotients.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "config.h"
#include "kernels/cross_entropy.h"
#include "units.h"

namespace llm::test {

template <class F>
using Tensors = std::map<std::string, std::vector<F>, std::less<>>;

// y (rows, out) = x (rows, in) w' with w (out, in)
template <class F>
std::vector<F> linear(const std::vector<F>& x, const std::vector<F>& w, std::size_t in) {
  const std::size_t rows = x.size() / in, out = w.size() / in;
  std::vector<F> y(rows * out, F(0));
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t i = 0; i < in; ++i) y[r * out + o] += x[r * in + i] * w[o * in + i];
  return y;
}

// dx += dy w, dw += dy' x
template <class F>
void linear_backward(const std::vector<F>& x, const std::vector<F>& w, const std::vector<F>& dy, std::size_t in,
                     std::vector<F>& dx, std::vector<F>& dw) {
  const std::size_t rows = x.size() / in, out = w.size() / in;
  dx.resize(x.size(), F(0));
  dw.resize(w.size(), F(0));
  for (std::size_t r = 0; r < rows; ++r)
    for (std::size_t o = 0; o < out; ++o)
      for (std::size_t i = 0; i < in; ++i) {
        dx[r * in + i] += dy[r * out + o] * w[o * in + i];
        dw[o * in + i] += dy[r * out + o] * x[r * in + i];
      }
}

template <class F>
std::vector<F> rms_norm(const std::vector<F>& x, const std::vector<F>& w, F eps) {
  const std::size_t columns = w.size();
  std::vector<F> y(x.size());
  for (std::size_t r = 0; r < x.size() / columns; ++r) {
    F squares = 0;
    for (std::size_t i = 0; i < columns; ++i) squares += x[r * columns + i] * x[r * columns + i];
    const F scale = F(1) / std::sqrt(squares / F(columns) + eps);
    for (std::size_t i = 0; i < columns; ++i) y[r * columns + i] = w[i] * x[r * columns + i] * scale;
  }
  return y;
}

template <class F>
void rms_norm_backward(const std::vector<F>& x, const std::vector<F>& w, F eps, const std::vector<F>& dy,
                       std::vector<F>& dx, std::vector<F>& dw) {
  const std::size_t columns = w.size();
  dw.resize(columns, F(0));
  for (std::size_t r = 0; r < x.size() / columns; ++r) {
    F squares = 0, dot = 0;
    for (std::size_t i = 0; i < columns; ++i) squares += x[r * columns + i] * x[r * columns + i];
    const F mean = squares / F(columns) + eps, scale = F(1) / std::sqrt(mean);
    for (std::size_t i = 0; i < columns; ++i) {
      const std::size_t at = r * columns + i;
      dot += dy[at] * w[i] * x[at];
      dw[i] += dy[at] * x[at] * scale;
    }
    for (std::size_t i = 0; i < columns; ++i) {
      const std::size_t at = r * columns + i;
      dx[at] += scale * (dy[at] * w[i] - x[at] * dot / (F(columns) * mean));
    }
  }
}

// x (T, dim) of one head: turned by its position, or back.
template <class F>
void rotate(std::vector<F>& x, std::size_t dim, double theta, F direction) {
  const std::size_t half = dim / 2;
  for (std::size_t t = 0; t < x.size() / dim; ++t) {
    for (std::size_t i = 0; i < half; ++i) {
      const F angle = F(t) * std::pow(F(theta), F(-2.0) * F(i) / F(dim)) * direction;
      const F a = x[t * dim + i], b = x[t * dim + half + i];
      x[t * dim + i] = a * std::cos(angle) - b * std::sin(angle);
      x[t * dim + half + i] = b * std::cos(angle) + a * std::sin(angle);
    }
  }
}

// One head of one sequence: q, k, v and o (T, dim), probabilities (T, T).
template <class F>
struct HeadPass {
  std::vector<F> q, k, v, probabilities, o;

  void forward(std::size_t seq, std::size_t dim) {
    probabilities.assign(seq * seq, F(0));
    o.assign(seq * dim, F(0));
    for (std::size_t t = 0; t < seq; ++t) {
      F sum = 0;
      for (std::size_t j = 0; j <= t; ++j) {
        F score = 0;
        for (std::size_t i = 0; i < dim; ++i) score += q[t * dim + i] * k[j * dim + i];
        probabilities[t * seq + j] = std::exp(score / std::sqrt(F(dim)));
        sum += probabilities[t * seq + j];
      }
      for (std::size_t j = 0; j <= t; ++j) {
        probabilities[t * seq + j] /= sum;
        for (std::size_t i = 0; i < dim; ++i) o[t * dim + i] += probabilities[t * seq + j] * v[j * dim + i];
      }
    }
  }

  // Adds to dq, dk, dv (T, dim).
  void backward(std::size_t seq, std::size_t dim, const std::vector<F>& dout, std::vector<F>& dq, std::vector<F>& dk,
                std::vector<F>& dv) const {
    for (std::size_t t = 0; t < seq; ++t) {
      F dot = 0;
      for (std::size_t i = 0; i < dim; ++i) dot += dout[t * dim + i] * o[t * dim + i];
      for (std::size_t j = 0; j <= t; ++j) {
        const F p = probabilities[t * seq + j];
        F dp = 0;
        for (std::size_t i = 0; i < dim; ++i) {
          dp += dout[t * dim + i] * v[j * dim + i];
          dv[j * dim + i] += p * dout[t * dim + i];
        }
        const F ds = p * (dp - dot) / std::sqrt(F(dim));
        for (std::size_t i = 0; i < dim; ++i) {
          dq[t * dim + i] += ds * k[j * dim + i];
          dk[j * dim + i] += ds * q[t * dim + i];
        }
      }
    }
  }
};

template <class F>
class ReferenceDecoder {
 public:
  ReferenceDecoder(const Config& config, Tensors<F> parameters) : config_(config), parameters_(std::move(parameters)) {}

  Tensors<F>& parameters() { return parameters_; }
  const Tensors<F>& gradients() const { return gradients_; }
  const std::vector<F>& logits() const { return logits_; }

  // Mean over the targets that count; logits() after it.
  F forward(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets, std::size_t batch);
  void backward();  // of the last forward; gradients() after it

 private:
  struct Layer {
    std::vector<F> x, h1, q, k, v, attended, x_middle, h2, gate, up, act;
    std::vector<HeadPass<F>> heads;  // (batch, heads)
  };

  const std::vector<F>& p(const std::string& name) const { return parameters_.at(name); }
  std::vector<F>& g(const std::string& name) { return gradients_[name]; }
  std::string table_name() const { return config_.tie_word_embeddings ? embed_name : head_name; }

  std::vector<F> column_block(const std::vector<F>& from, std::size_t sequence, std::size_t head,
                              std::size_t heads) const;
  void add_column_block(std::vector<F>& to, const std::vector<F>& block, std::size_t sequence, std::size_t head,
                        std::size_t heads) const;
  void forward_layer(const BlockNames& names, Layer& layer);
  void backward_layer(const BlockNames& names, Layer& layer, std::vector<F>& dx);
  void attend(Layer& layer);
  void attend_backward(const Layer& layer, const std::vector<F>& dattended, std::vector<F>& dq, std::vector<F>& dk,
                       std::vector<F>& dv);

  Config config_;
  Tensors<F> parameters_, gradients_;
  std::vector<std::int32_t> tokens_, targets_;
  std::size_t batch_ = 0, seq_ = 0, counted_ = 0;
  std::vector<Layer> layers_;
  std::vector<F> x_, x_final_, h_final_, logits_;
};

template <class F>
std::vector<F> ReferenceDecoder<F>::column_block(const std::vector<F>& from, std::size_t sequence, std::size_t head,
                                                 std::size_t heads) const {
  const auto dim = static_cast<std::size_t>(config_.head_dim);
  std::vector<F> block(seq_ * dim);
  for (std::size_t t = 0; t < seq_; ++t)
    for (std::size_t i = 0; i < dim; ++i) {
      block[t * dim + i] = from[((sequence * seq_ + t) * heads + head) * dim + i];
    }
  return block;
}

template <class F>
void ReferenceDecoder<F>::add_column_block(std::vector<F>& to, const std::vector<F>& block, std::size_t sequence,
                                           std::size_t head, std::size_t heads) const {
  const auto dim = static_cast<std::size_t>(config_.head_dim);
  for (std::size_t t = 0; t < seq_; ++t)
    for (std::size_t i = 0; i < dim; ++i) {
      to[((sequence * seq_ + t) * heads + head) * dim + i] += block[t * dim + i];
    }
}

template <class F>
void ReferenceDecoder<F>::attend(Layer& layer) {
  const auto dim = static_cast<std::size_t>(config_.head_dim);
  const auto heads = static_cast<std::size_t>(config_.num_attention_heads);
  const auto kv_heads = static_cast<std::size_t>(config_.num_key_value_heads);
  layer.attended.assign(layer.q.size(), F(0));
  layer.heads.assign(batch_ * heads, {});
  for (std::size_t b = 0; b < batch_; ++b)
    for (std::size_t h = 0; h < heads; ++h) {
      HeadPass<F>& head = layer.heads[b * heads + h];
      const std::size_t kv = h / (heads / kv_heads);
      head.q = column_block(layer.q, b, h, heads);
      head.k = column_block(layer.k, b, kv, kv_heads);
      head.v = column_block(layer.v, b, kv, kv_heads);
      rotate(head.q, dim, config_.rope_theta, F(1));
      rotate(head.k, dim, config_.rope_theta, F(1));
      head.forward(seq_, dim);
      add_column_block(layer.attended, head.o, b, h, heads);
    }
}

template <class F>
void ReferenceDecoder<F>::attend_backward(const Layer& layer, const std::vector<F>& dattended, std::vector<F>& dq,
                                          std::vector<F>& dk, std::vector<F>& dv) {
  const auto dim = static_cast<std::size_t>(config_.head_dim);
  const auto heads = static_cast<std::size_t>(config_.num_attention_heads);
  const auto kv_heads = static_cast<std::size_t>(config_.num_key_value_heads);
  dq.assign(layer.q.size(), F(0));
  dk.assign(layer.k.size(), F(0));
  dv.assign(layer.v.size(), F(0));
  for (std::size_t b = 0; b < batch_; ++b)
    for (std::size_t h = 0; h < heads; ++h) {
      const std::size_t kv = h / (heads / kv_heads);
      std::vector<F> q(seq_ * dim, F(0)), k(seq_ * dim, F(0)), v(seq_ * dim, F(0));
      layer.heads[b * heads + h].backward(seq_, dim, column_block(dattended, b, h, heads), q, k, v);
      rotate(q, dim, config_.rope_theta, F(-1));
      rotate(k, dim, config_.rope_theta, F(-1));
      add_column_block(dq, q, b, h, heads);
      add_column_block(dk, k, b, kv, kv_heads);
      add_column_block(dv, v, b, kv, kv_heads);
    }
}

template <class F>
void ReferenceDecoder<F>::forward_layer(const BlockNames& names, Layer& layer) {
  const auto hidden = static_cast<std::size_t>(config_.hidden_size);
  layer.x = x_;
  layer.h1 = rms_norm(x_, p(names.input_norm), F(config_.rms_norm_eps));
  layer.q = linear(layer.h1, p(names.q), hidden);
  layer.k = linear(layer.h1, p(names.k), hidden);
  layer.v = linear(layer.h1, p(names.v), hidden);
  attend(layer);
  const std::vector<F> o = linear(layer.attended, p(names.o), static_cast<std::size_t>(config_.query_size()));
  for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += o[i];
  layer.x_middle = x_;
  layer.h2 = rms_norm(x_, p(names.post_norm), F(config_.rms_norm_eps));
  layer.gate = linear(layer.h2, p(names.gate), hidden);
  layer.up = linear(layer.h2, p(names.up), hidden);
  layer.act.resize(layer.gate.size());
  for (std::size_t i = 0; i < layer.act.size(); ++i) {
    layer.act[i] = layer.gate[i] / (F(1) + std::exp(-layer.gate[i])) * layer.up[i];
  }
  const std::vector<F> down = linear(layer.act, p(names.down), static_cast<std::size_t>(config_.intermediate_size));
  for (std::size_t i = 0; i < x_.size(); ++i) x_[i] += down[i];
}

template <class F>
void ReferenceDecoder<F>::backward_layer(const BlockNames& names, Layer& layer, std::vector<F>& dx) {
  const auto hidden = static_cast<std::size_t>(config_.hidden_size);
  std::vector<F> dact, dgate(layer.act.size()), dup(layer.act.size()), dh2;
  linear_backward(layer.act, p(names.down), dx, static_cast<std::size_t>(config_.intermediate_size), dact,
                  g(names.down));
  for (std::size_t i = 0; i < dact.size(); ++i) {
    const F s = F(1) / (F(1) + std::exp(-layer.gate[i]));
    dgate[i] = dact[i] * layer.up[i] * s * (F(1) + layer.gate[i] * (F(1) - s));
    dup[i] = dact[i] * layer.gate[i] * s;
  }
  linear_backward(layer.h2, p(names.gate), dgate, hidden, dh2, g(names.gate));
  linear_backward(layer.h2, p(names.up), dup, hidden, dh2, g(names.up));
  rms_norm_backward(layer.x_middle, p(names.post_norm), F(config_.rms_norm_eps), dh2, dx, g(names.post_norm));

  std::vector<F> dattended, dq, dk, dv, dh1;
  linear_backward(layer.attended, p(names.o), dx, static_cast<std::size_t>(config_.query_size()), dattended,
                  g(names.o));
  attend_backward(layer, dattended, dq, dk, dv);
  linear_backward(layer.h1, p(names.q), dq, hidden, dh1, g(names.q));
  linear_backward(layer.h1, p(names.k), dk, hidden, dh1, g(names.k));
  linear_backward(layer.h1, p(names.v), dv, hidden, dh1, g(names.v));
  rms_norm_backward(layer.x, p(names.input_norm), F(config_.rms_norm_eps), dh1, dx, g(names.input_norm));
}

template <class F>
F ReferenceDecoder<F>::forward(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets,
                               std::size_t batch) {
  const auto hidden = static_cast<std::size_t>(config_.hidden_size);
  const auto vocab = static_cast<std::size_t>(config_.vocab_size);
  tokens_.assign(tokens.begin(), tokens.end());
  targets_.assign(targets.begin(), targets.end());
  batch_ = batch;
  seq_ = tokens.size() / batch;
  x_.resize(tokens.size() * hidden);
  for (std::size_t r = 0; r < tokens.size(); ++r)
    for (std::size_t i = 0; i < hidden; ++i) {
      x_[r * hidden + i] = p(embed_name)[static_cast<std::size_t>(tokens[r]) * hidden + i];
    }
  layers_.assign(static_cast<std::size_t>(config_.num_hidden_layers), {});
  for (std::size_t l = 0; l < layers_.size(); ++l) forward_layer(BlockNames(static_cast<std::int64_t>(l)), layers_[l]);
  x_final_ = x_;
  h_final_ = rms_norm(x_, p(norm_name), F(config_.rms_norm_eps));
  logits_ = linear(h_final_, p(table_name()), hidden);
  F loss = 0;
  counted_ = 0;
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    if (targets[r] == ignored_target) continue;
    F sum = 0;
    for (std::size_t v = 0; v < vocab; ++v) sum += std::exp(logits_[r * vocab + v]);
    loss += std::log(sum) - logits_[r * vocab + static_cast<std::size_t>(targets[r])];
    ++counted_;
  }
  return counted_ == 0 ? F(0) : loss / F(counted_);
}

template <class F>
void ReferenceDecoder<F>::backward() {
  const auto hidden = static_cast<std::size_t>(config_.hidden_size);
  const auto vocab = static_cast<std::size_t>(config_.vocab_size);
  gradients_.clear();
  std::vector<F> dlogits(logits_.size(), F(0));
  for (std::size_t r = 0; r < tokens_.size(); ++r) {
    if (targets_[r] == ignored_target) continue;
    F sum = 0;
    for (std::size_t v = 0; v < vocab; ++v) sum += std::exp(logits_[r * vocab + v]);
    for (std::size_t v = 0; v < vocab; ++v)
      dlogits[r * vocab + v] = std::exp(logits_[r * vocab + v]) / sum / F(counted_);
    dlogits[r * vocab + static_cast<std::size_t>(targets_[r])] -= F(1) / F(counted_);
  }
  std::vector<F> dh, dx(x_final_.size(), F(0));
  linear_backward(h_final_, p(table_name()), dlogits, hidden, dh, g(table_name()));
  rms_norm_backward(x_final_, p(norm_name), F(config_.rms_norm_eps), dh, dx, g(norm_name));
  for (std::size_t l = layers_.size(); l-- > 0;)
    backward_layer(BlockNames(static_cast<std::int64_t>(l)), layers_[l], dx);
  std::vector<F>& dembed = g(embed_name);
  dembed.resize(p(embed_name).size(), F(0));
  for (std::size_t r = 0; r < tokens_.size(); ++r)
    for (std::size_t i = 0; i < hidden; ++i) {
      dembed[static_cast<std::size_t>(tokens_[r]) * hidden + i] += dx[r * hidden + i];
    }
}

}  // namespace llm::test
