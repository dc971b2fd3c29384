// What of the state lies on nvme: its room there, an item for each chunk, and the memory that it moves through.
#pragma once

#include "engine/context.h"

namespace strata::engine {

// The disk's room is reserved in full. REQUIRES states that know what of them lies on nvme. Throws io, naming the
// directory and the need.
void take_spill(EngineContext& context);

}  // namespace strata::engine
