// `llm train`: from a text file to a trained decoder, over however many ranks.
#pragma once

#include <strata/communicator.h>
#include <strata/options.h>

#include "train_options.h"

namespace llm {

// Collective over the communicator's ranks; rank 0 writes the log and prints. Throws strata::Error and
// std::invalid_argument.
void train(const TrainOptions& options, const strata::Options& engine_options, strata::Communicator& communicator);

}  // namespace llm
