#include "tokenizer.h"

#include <fmt/format.h>

#include <fstream>
#include <stdexcept>

namespace llm {

Tokenizer::Tokenizer(const std::filesystem::path& file) {
  std::ifstream stream(file, std::ios::binary);
  std::int32_t longest = 0;
  stream.read(reinterpret_cast<char*>(&longest), sizeof(longest));
  if (!stream || longest < 1 || longest > 1 << 20) {
    throw std::invalid_argument(fmt::format("'{}' is no tokenizer of llama2.c's", file.string()));
  }
  Piece piece;
  while (stream.read(reinterpret_cast<char*>(&piece.score), sizeof(piece.score))) {
    std::int32_t length = 0;
    stream.read(reinterpret_cast<char*>(&length), sizeof(length));
    if (!stream || length < 0 || length > 1 << 20) {
      throw std::invalid_argument(fmt::format("'{}': piece {} has no sound length", file.string(), pieces_.size()));
    }
    piece.text.resize(static_cast<std::size_t>(length));
    if (!stream.read(piece.text.data(), length)) {
      throw std::invalid_argument(fmt::format("'{}' ends within piece {}", file.string(), pieces_.size()));
    }
    ids_.emplace(piece.text, static_cast<std::int32_t>(pieces_.size()));
    pieces_.push_back(piece);
  }
}

std::optional<std::int32_t> Tokenizer::find(const std::string& text) const {
  const auto found = ids_.find(text);
  return found == ids_.end() ? std::nullopt : std::optional(found->second);
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int32_t> ids{begin_id};
  if (text.empty()) return ids;
  if (const auto space = find(" ")) ids.push_back(*space);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 1;  // of a UTF-8 code point: its continuation bytes are 10xxxxxx
    while (at + length < text.size() && (static_cast<unsigned char>(text[at + length]) & 0xC0) == 0x80) ++length;
    if (const auto piece = find(std::string(text.substr(at, length)))) {
      ids.push_back(*piece);
    } else {
      for (std::size_t i = 0; i < length; ++i) ids.push_back(first_byte_id + static_cast<unsigned char>(text[at + i]));
    }
    at += length;
  }
  for (;;) {
    std::size_t best = 0;
    std::optional<std::int32_t> joined;
    for (std::size_t i = 1; i + 1 < ids.size(); ++i) {
      const auto piece =
          find(pieces_[static_cast<std::size_t>(ids[i])].text + pieces_[static_cast<std::size_t>(ids[i + 1])].text);
      if (!piece) continue;
      const float score = pieces_[static_cast<std::size_t>(*piece)].score;
      if (!joined || score > pieces_[static_cast<std::size_t>(*joined)].score) {
        joined = piece;
        best = i;
      }
    }
    if (!joined) return ids;
    ids[best] = *joined;
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
  }
}

std::string Tokenizer::decode(std::span<const std::int32_t> ids) const {
  constexpr std::int32_t byte_count = 256;
  std::string text;
  std::int32_t before = -1;
  for (const std::int32_t id : ids) {
    if (id < 0 || static_cast<std::size_t>(id) >= pieces_.size()) {
      throw std::invalid_argument(fmt::format("token {} is none of the tokenizer's {}", id, pieces_.size()));
    }
    std::string_view piece = pieces_[static_cast<std::size_t>(id)].text;
    if (id >= first_byte_id && id < first_byte_id + byte_count) {
      text.push_back(static_cast<char>(id - first_byte_id));
    } else if (id != begin_id) {
      if (before == begin_id && piece.starts_with(' ')) piece.remove_prefix(1);
      text += piece;
    }
    before = id;
  }
  return text;
}

}  // namespace llm
