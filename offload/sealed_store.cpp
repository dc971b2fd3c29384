#include "offload/sealed_store.h"

#include <fmt/format.h>

#include <array>
#include <string_view>

#include <strata/detail/assert.h>
#include <strata/error.h>
#include "offload/checksum.h"

namespace strata::offload {
namespace {

constexpr std::array<std::string_view, 5> content_names = {"record", "published shard", "frozen shard", "accumulator",
                                                           "activation"};
static_assert(content_names.size() == static_cast<std::size_t>(Content::activation) + 1);

// A bijection in which every bit of the outcome depends on every bit of the input (the finalizer of splitmix64).
std::uint64_t mixed(std::uint64_t value) {
  value = (value ^ value >> 30) * 0xBF58476D1CE4E5B9u;
  value = (value ^ value >> 27) * 0x94D049BB133111EBu;
  return value ^ value >> 31;
}

std::uint64_t seed_of(const Identity& identity, std::uint64_t version) {
  const std::uint64_t place = std::uint64_t{identity.unit} << 32 | identity.chunk;
  return mixed(mixed(mixed(static_cast<std::uint64_t>(identity.content) + 1) + place) + version);
}

}  // namespace

std::size_t SealedStore::add(const Identity& identity, std::uint64_t size_bytes, Copies copies) {
  static_assert(sizeof(Item) <= table_bytes_per_item);
  const std::size_t alignment_bytes = tier_.alignment_bytes();
  const std::uint64_t padded_bytes = (size_bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  const Extent extent = tier_.reserve(padded_bytes * static_cast<std::uint64_t>(copies));
  items_.push_back({identity, extent, padded_bytes, 0, 0, copies});
  return items_.size() - 1;
}

Event SealedStore::store(std::size_t index, std::span<const std::byte> source) {
  Item& item = items_.at(index);
  STRATA_ASSERT(source.size() == item.size_bytes);
  ++item.version;
  item.checksum = checksum(source, seed_of(item.identity, item.version));
  return tier_.store(item.extent, first_byte_of(item), source);
}

Event SealedStore::load(std::size_t index, std::span<std::byte> target) {
  const Item& item = items_.at(index);
  STRATA_ASSERT(item.version > 0 && target.size() == item.size_bytes);
  return tier_.load(item.extent, first_byte_of(item), target);
}

void SealedStore::verify(std::size_t index, std::span<const std::byte> loaded) const {
  const Item& item = items_.at(index);
  STRATA_ASSERT(item.version > 0 && loaded.size() == item.size_bytes);
  const std::uint64_t found = checksum(loaded, seed_of(item.identity, item.version));
  if (found == item.checksum) return;
  throw Error(ErrorCode::corruption,
              fmt::format("{}: what came back is not what was stored ({} bytes at {}, checksum {:016x} instead of "
                          "{:016x}): go back to a checkpoint",
                          described(item), item.size_bytes, item.extent.offset_bytes + first_byte_of(item), found,
                          item.checksum));
}

void SealedStore::finish_load(std::size_t index, const Event& load, std::span<const std::byte> loaded) const {
  try {
    load.wait();
  } catch (const Error& error) {
    throw Error(error.code(), fmt::format("{}: {}", described(items_.at(index)), error.text()));
  }
  verify(index, loaded);
}

std::string SealedStore::described(const Item& item) const {
  return fmt::format("{}, {} of unit {}, chunk {}, version {}", tier_.name(),
                     content_names[static_cast<std::size_t>(item.identity.content)], item.identity.unit,
                     item.identity.chunk, item.version);
}

std::uint64_t SealedStore::first_byte_of(const Item& item) {
  return item.version % static_cast<std::uint64_t>(item.copies) * item.size_bytes;
}

}  // namespace strata::offload
