#include "generate.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <stdexcept>

#include "decoder.h"
#include "loaded_model.h"
#include "sampling.h"
#include "tokenizer.h"

namespace llm {

namespace {

constexpr std::int64_t byte_vocab = 256;

std::vector<std::int32_t> first_tokens(const GenerateOptions& options, const Config& config,
                                       const std::optional<Tokenizer>& tokenizer) {
  if (!options.prompt_ids.empty()) return options.prompt_ids;
  if (tokenizer) return tokenizer->encode(options.prompt);
  if (config.vocab_size != byte_vocab) {
    throw std::invalid_argument("without --tokenizer a vocabulary of other than 256 tokens needs --prompt-ids");
  }
  std::vector<std::int32_t> bytes;
  for (const char byte : options.prompt.empty() ? std::string("\n") : options.prompt) {
    bytes.push_back(static_cast<unsigned char>(byte));
  }
  return bytes;
}

}  // namespace

void add_generate_flags(CLI::App& app, GenerateOptions& options) {
  auto* model = app.add_option("--model", options.model_directory, "a folder with config.json and model.safetensors")
                    ->check(CLI::ExistingDirectory);
  app.add_option("--stories", options.stories_file, "a model file of llama2.c")
      ->check(CLI::ExistingFile)
      ->excludes(model);
  app.add_option("--tokenizer", options.tokenizer_file, "a tokenizer file of llama2.c")->check(CLI::ExistingFile);
  app.add_option("--prompt", options.prompt, "the text to continue");
  app.add_option("--prompt-ids", options.prompt_ids, "the same as tokens: 1,2,3")->delimiter(',');
  app.add_option("--tokens", options.count, "how many to add")->capture_default_str();
  app.add_option("--temperature", options.temperature)->check(CLI::Range(0.0, 100.0))->capture_default_str();
  app.add_flag("--greedy", options.greedy, "always the most likely token");
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("--window", options.window, "tokens that the model sees at most")
      ->check(CLI::Range(std::size_t{1}, std::size_t{1} << 20))
      ->capture_default_str();
}

void generate(const GenerateOptions& options) {
  if (options.model_directory.empty() && options.stories_file.empty()) {
    throw std::invalid_argument("generate needs --model DIRECTORY or --stories FILE");
  }
  const LoadedModel model =
      options.stories_file.empty() ? read_hugging_face(options.model_directory) : read_stories(options.stories_file);
  const Config& config = model.config();
  std::optional<Tokenizer> tokenizer;
  if (!options.tokenizer_file.empty()) tokenizer.emplace(options.tokenizer_file);

  DecoderOptions sizes;
  sizes.seq =
      std::min(options.window, static_cast<std::size_t>(std::max<std::int64_t>(config.max_position_embeddings, 1)));
  const std::unique_ptr<Decoder> decoder = make_decoder(config, sizes);
  SamplingOptions sampling;
  sampling.count = options.count;
  sampling.temperature = options.greedy ? 0 : options.temperature;
  sampling.seed = options.seed;
  sampling.window = sizes.seq;
  sampling.vocab_size = static_cast<std::size_t>(config.vocab_size);
  const auto next = [&](std::span<const std::int32_t> tokens, std::size_t last, std::span<float> out) {
    decoder->embed(model, tokens, 1);
    for (std::int64_t layer = 0; layer < config.num_hidden_layers; ++layer) {
      decoder->forward_block(static_cast<std::size_t>(layer), model);
    }
    decoder->logits({model, model}, last, 1, out);
  };
  const std::vector<std::int32_t> text = sample(first_tokens(options, config, tokenizer), sampling, next);
  if (tokenizer) {
    fmt::print("{}\n", tokenizer->decode(text));
  } else if (config.vocab_size == byte_vocab) {
    fmt::print("{}\n", printable(text));
  } else {
    fmt::print("{}\n", fmt::join(text, " "));
  }
}

}  // namespace llm
