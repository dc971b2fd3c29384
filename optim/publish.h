// Master values made public without an update: at initialisation and after a load.
#pragma once

#include <span>

#include <strata/dtype.h>
#include <strata/optimizer.h>

namespace strata::optim {

// published[i] = master[i] as `dtype` (f32, bf16, f16), rounded as every update rounds; a NaN becomes 0x7FC00000 in
// master and its cast in published. `published` addresses master.size() elements and does not overlap. Any thread.
UpdateOutcome publish(std::span<float> master, void* published, Dtype dtype);

}  // namespace strata::optim
