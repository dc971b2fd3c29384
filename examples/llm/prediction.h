// How long the model's arithmetic takes, tried out before the first step.
#pragma once

#include <strata/communicator.h>
#include <strata/unit.h>

#include <vector>

#include "config.h"
#include "decoder.h"

namespace llm {

// The units of make_units(config) with the seconds of one micro-batch: a few blocks are computed with made-up
// parameters, and the head is taken to be as fast as they are. Collective, so that all ranks compute at the same time,
// as they will. Takes memory for one block's parameters and gradients, and gives it back.
// `options` are those that the decoder was made with.
std::vector<strata::Unit> timed_units(const Config& config, Decoder& decoder, const DecoderOptions& options,
                                      strata::Communicator& communicator);

}  // namespace llm
