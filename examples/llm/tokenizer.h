// Byte-pair pieces with scores, as llama2.c keeps them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace llm {

// The file, little-endian: i32 longest piece, then for each id f32 score, i32 length, bytes. 0 is unknown, 1 begins a
// text, 2 ends it, 3 + b is the byte b.
class Tokenizer {
 public:
  static constexpr std::int32_t begin_id = 1;
  static constexpr std::int32_t first_byte_id = 3;

  explicit Tokenizer(const std::filesystem::path& file);  // throws std::invalid_argument

  std::size_t size() const { return pieces_.size(); }

  // begin_id, a space, and the text; neighbours that together make a piece are joined, best score first, leftmost of
  // equals.
  std::vector<std::int32_t> encode(std::string_view text) const;
  std::string decode(std::span<const std::int32_t> ids) const;  // throws std::invalid_argument for an id out of range

 private:
  struct Piece {
    std::string text;
    float score;
  };
  std::optional<std::int32_t> find(const std::string& text) const;

  std::vector<Piece> pieces_;
  std::unordered_map<std::string, std::int32_t> ids_;
};

}  // namespace llm
