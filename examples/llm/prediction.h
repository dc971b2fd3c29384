// How long a step will take, said before the first one.
#pragma once

#include "config.h"
#include "decoder.h"

namespace llm {

// Seconds of one micro-batch's forward and backward pass: its products at the rate that one of them has now, with
// what experience adds for all else.
double predict_step_seconds(const Config& config, Decoder& decoder, std::size_t batch, std::size_t seq);

}  // namespace llm
