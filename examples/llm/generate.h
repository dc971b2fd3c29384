// `llm generate`: a model read from files continues a text.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace llm {

struct GenerateOptions {
  std::string model_directory;  // Hugging Face's form
  std::string stories_file;     // llama2.c's form
  std::string tokenizer_file;
  std::string prompt;
  std::vector<std::int32_t> prompt_ids;
  std::size_t count = 200;  // tokens to add
  double temperature = 0.8;
  bool greedy = false;
  std::uint64_t seed = 1;
  std::size_t window = 512;  // tokens that the model sees at most
};

void add_generate_flags(CLI::App& app, GenerateOptions& options);

// Prints the text: decoded with a tokenizer, as bytes for a vocabulary of 256, else as ids. Throws
// std::invalid_argument.
void generate(const GenerateOptions& options);

}  // namespace llm
