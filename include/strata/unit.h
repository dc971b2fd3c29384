// What a model tells strata about itself: units, which are gathered and released together, and their tensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <vector>

namespace strata {

enum class Training : std::uint8_t { trainable, frozen };  // a frozen tensor costs no gradient and no optimizer bytes
enum class Decay : std::uint8_t { on, off };               // whether the optimizer's weight decay acts on the tensor

struct Tensor {
  std::string name = {};                 // unique in the model
  std::vector<std::int64_t> shape = {};  // row-major; empty = one element; a 0 makes it empty
  Training training = Training::trainable;
  Decay decay = Decay::on;
  float lr_factor = 1.0f;  // multiplies the step's learning rate; finite, >= 0

  std::size_t element_count() const;  // throws Error{invalid_argument} on a negative extent or overflow
};

inline constexpr std::size_t unnumbered = std::numeric_limits<std::size_t>::max();

// Parameters that are gathered and released together: a transformer block, an embedding.
struct Unit {
  std::string name = {};  // unique in the model
  std::vector<Tensor> tensors = {};
  std::size_t index = unnumbered;  // set by the engine: position in forward order
  double forward_s = 0;            // what the caller says of its arithmetic; 0 = unknown
  double backward_s = 0;
};

}  // namespace strata
