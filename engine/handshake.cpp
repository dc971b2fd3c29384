#include "engine/handshake.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string_view>
#include <vector>

#include <strata/error.h>
#include "engine/options/digest.h"

namespace strata::engine {
namespace {

constexpr CallTag start_tag{no_unit, 0, "start"};

// Every rank's value, by rank.
std::vector<std::uint64_t> values_of_all(Communicator& communicator, std::uint64_t value) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const ExchangeBlock block = communicator.allocate(ranks * sizeof(std::uint64_t), Sharing::common);
  communicator.all_gather(&value, block.bytes().data(), 1, Dtype::u64, start_tag);
  std::vector<std::uint64_t> values(ranks);
  std::memcpy(values.data(), block.bytes().data(), ranks * sizeof(std::uint64_t));
  return values;
}

std::uint64_t hash_of(const std::string& text) {  // FNV-1a; equal texts are what matters, nobody attacks it
  std::uint64_t hash = 0xCBF29CE484222325ull;
  for (const char letter : text) hash = (hash ^ static_cast<unsigned char>(letter)) * 0x100000001B3ull;
  return hash;
}

std::vector<std::string_view> lines_of(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Rank 0's text against another's: the first line that differs.
[[noreturn]] void report_difference(std::string_view first, std::string_view other, std::size_t other_rank) {
  const auto first_lines = lines_of(first);
  const auto other_lines = lines_of(other);
  const std::size_t common = std::min(first_lines.size(), other_lines.size());
  std::size_t at = 0;
  while (at < common && first_lines[at] == other_lines[at]) ++at;
  const auto line = [&](const auto& lines) {
    return at < lines.size() ? lines[at] : std::string_view("(nothing more)");
  };
  throw Error(ErrorCode::mismatch,
              fmt::format("ranks have different settings: rank 0 has '{}', rank {} has '{}'; start "
                          "all ranks with the same options and model",
                          line(first_lines), other_rank, line(other_lines)));
}

}  // namespace

std::string settings_text(std::span<const Unit> units, const Optimizer& optimizer, const Options& options) {
  std::string text = detail::engine_settings_digest_text(options);
  if (!text.empty() && text.back() != '\n') text += '\n';
  auto out = std::back_inserter(text);
  fmt::format_to(out, "optimizer={} {}\n", optimizer.name(), optimizer.settings());
  for (const Unit& unit : units) {
    fmt::format_to(out, "unit={}\n", unit.name);
    for (const Tensor& tensor : unit.tensors) {
      fmt::format_to(out, "tensor={} [{}] {} {} lr_factor={}\n", tensor.name, fmt::join(tensor.shape, ","),
                     tensor.training == Training::frozen ? "frozen" : "trainable",
                     tensor.decay == Decay::on ? "decay" : "no_decay", tensor.lr_factor);
    }
  }
  return text;
}

void compare_settings(Communicator& communicator, const std::string& text) {
  const std::vector<std::uint64_t> hashes = values_of_all(communicator, hash_of(text));
  if (std::all_of(hashes.begin(), hashes.end(), [&](std::uint64_t hash) { return hash == hashes[0]; })) return;
  const std::vector<std::uint64_t> sizes = values_of_all(communicator, text.size());
  const std::size_t room_bytes = *std::max_element(sizes.begin(), sizes.end());
  std::string padded = text;
  padded.resize(room_bytes);
  const ExchangeBlock block = communicator.allocate(room_bytes * sizes.size(), Sharing::common);
  communicator.all_gather(padded.data(), block.bytes().data(), room_bytes, Dtype::u8, start_tag);
  const auto* texts = reinterpret_cast<const char*>(block.bytes().data());
  for (std::size_t rank = 1; rank < hashes.size(); ++rank) {
    if (hashes[rank] == hashes[0]) continue;
    report_difference({texts, sizes[0]}, {texts + rank * room_bytes, sizes[rank]}, rank);
  }
}

std::uint64_t least_over_ranks(Communicator& communicator, std::uint64_t value) {
  const std::vector<std::uint64_t> values = values_of_all(communicator, value);
  return *std::min_element(values.begin(), values.end());
}

}  // namespace strata::engine
