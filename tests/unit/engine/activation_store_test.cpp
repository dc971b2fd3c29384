// What is stashed comes back, in any order, from memory and from a disk that takes its time.
#include "engine/activation_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <random>

#include <strata/engine.h>
#include <strata/error.h>
#include "offload/nvme_tier.h"
#include "support/fresh_folder.h"
#include "support/shuffling_tier.h"

namespace strata::engine {
namespace {

using strata::test::ShufflingTier;
using testing::HasSubstr;

constexpr std::size_t piece = stash_piece_bytes;

std::vector<std::byte> bytes_of(std::uint64_t seed, std::size_t count) {
  std::vector<std::uint64_t> words(count / sizeof(std::uint64_t) + 1);
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = (seed * 1'000'003 + i) * 0x9E3779B97F4A7C15ull;
  std::vector<std::byte> made(count);
  std::memcpy(made.data(), words.data(), count);
  return made;
}

ActivationNeeds needs_of(std::size_t pieces, std::size_t buffers) {
  ActivationNeeds needs;
  needs.room_bytes = pieces * piece;
  needs.staging_bytes = buffers * piece;
  return needs;
}

enum class Under : std::uint8_t { device, host, shuffling, disk };

// A store, with what it stands on.
struct Home {
  Home(Under under, std::size_t pieces, std::size_t buffers, unsigned seed) {
    if (under == Under::disk) {
      offload::DiskOptions options;
      options.dirs = {folder.path()};
      options.capacity_bytes = pieces * piece;
      disk = std::make_unique<offload::NvmeTier>(options);
    }
    if (under == Under::shuffling) tier = std::make_unique<ShufflingTier>(pieces * piece, seed);
    const TierKind kind = under == Under::device ? TierKind::device
                          : under == Under::host ? TierKind::host
                                                 : TierKind::nvme;
    store.emplace(needs_of(pieces, buffers), kind, under == Under::disk ? disk.get() : tier.get());
  }

  void expect_fetch(std::uint64_t key, const std::vector<std::byte>& wanted) {
    std::vector<std::byte> found(wanted.size());
    store->fetch(key, found);
    EXPECT_TRUE(found == wanted) << "key " << key;
  }

  strata::test::FreshFolder folder;
  std::unique_ptr<Tier> disk;
  std::unique_ptr<ShufflingTier> tier;
  std::optional<ActivationStore> store;
};

std::string error_of(const std::function<void()>& act, ErrorCode code) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error";
  return "";
}

class EachHome : public testing::TestWithParam<Under> {};
INSTANTIATE_TEST_SUITE_P(Homes, EachHome, testing::Values(Under::device, Under::host, Under::shuffling, Under::disk),
                         [](const auto& home) {
                           return home.param == Under::device      ? "device"
                                  : home.param == Under::host      ? "host"
                                  : home.param == Under::shuffling ? "shuffling"
                                                                   : "disk";
                         });

TEST_P(EachHome, gives_back_any_key_in_any_order) {
  for (unsigned seed = 1; seed <= 4; ++seed) {
    constexpr std::size_t piece_count = 12;
    Home home(GetParam(), piece_count, 1 + seed % 5, seed);
    std::mt19937 random(seed);
    std::map<std::uint64_t, std::vector<std::byte>> held;
    std::uint64_t held_bytes = 0, next_key = 0;
    for (int act = 0; act < 60; ++act) {
      const std::size_t size = random() % (3 * piece);
      const bool fits = held_bytes + stashed_bytes(size) <= piece_count * piece;
      if (fits && random() % 5 < 3) {
        const std::uint64_t key = random() % 2 ? next_key : next_key << 40;
        ++next_key;
        held[key] = bytes_of(seed * 1000 + next_key, size);
        home.store->stash(key, held[key]);
        held_bytes += stashed_bytes(size);
      } else if (!held.empty()) {
        auto at = random() % 3 == 0 ? std::next(held.begin(), random() % held.size()) : std::prev(held.end());
        home.expect_fetch(at->first, at->second);
        held_bytes -= stashed_bytes(at->second.size());
        held.erase(at);
      }
    }
    for (const auto& [key, bytes] : held) home.expect_fetch(key, bytes);
    home.store->check_empty("the end");
  }
}

TEST_P(EachHome, takes_exactly_its_room) {
  Home home(GetParam(), 4, 2, 1);
  for (int round = 0; round < 3; ++round) {
    home.store->stash(1, bytes_of(1, 2 * piece));
    home.store->stash(2, bytes_of(2, piece + 1));
    const std::string text = error_of([&] { home.store->stash(3, bytes_of(3, 1)); }, ErrorCode::out_of_budget);
    EXPECT_THAT(text, HasSubstr("key 3"));
    EXPECT_THAT(text, HasSubstr("1 bytes"));
    EXPECT_THAT(text, HasSubstr("keys stashed: 2, 1"));
    EXPECT_THAT(text, HasSubstr("--strata-activation-memory to at least 1.25 MiB"));
    home.expect_fetch(1, bytes_of(1, 2 * piece));
    home.store->stash(3, bytes_of(3, 0));
    home.expect_fetch(3, {});
    home.expect_fetch(2, bytes_of(2, piece + 1));
  }
}

TEST_P(EachHome, refuses_what_cannot_be_meant_and_keeps_what_is_there) {
  Home home(GetParam(), 4, 2, 1);
  home.store->stash(7, bytes_of(7, 100));
  std::vector<std::byte> room(100), other(99);
  EXPECT_THAT(error_of([&] { home.store->stash(7, other); }, ErrorCode::invalid_argument),
              testing::AllOf(HasSubstr("key 7"), HasSubstr("99 bytes"), HasSubstr("100 bytes")));
  EXPECT_THAT(error_of([&] { home.store->fetch(8, room); }, ErrorCode::invalid_argument),
              testing::AllOf(HasSubstr("key 8"), HasSubstr("keys stashed: 7")));
  EXPECT_THAT(error_of([&] { home.store->fetch(7, other); }, ErrorCode::invalid_argument),
              testing::AllOf(HasSubstr("key 7"), HasSubstr("99 bytes"), HasSubstr("100 bytes")));
  EXPECT_THAT(error_of([&] { home.store->check_empty("step()"); }, ErrorCode::invalid_argument),
              testing::AllOf(HasSubstr("step()"), HasSubstr("keys 7")));
  home.expect_fetch(7, bytes_of(7, 100));
  EXPECT_THAT(error_of([&] { home.store->fetch(7, room); }, ErrorCode::invalid_argument),
              HasSubstr("keys stashed: none"));
}

TEST_P(EachHome, dropped_keys_free_the_room) {
  Home home(GetParam(), 6, 3, 1);
  for (int round = 0; round < 4; ++round) {
    for (std::uint64_t key = 0; key < 3; ++key) home.store->stash(key, bytes_of(key + round, 2 * piece));
    home.expect_fetch(2, bytes_of(2 + round, 2 * piece));
    home.store->drop_all();
    home.store->check_empty("the end");
  }
}

TEST(ActivationStore, without_room_names_the_option) {
  ActivationStore store;
  std::vector<std::byte> bytes(8);
  EXPECT_THAT(error_of([&] { store.stash(1, bytes); }, ErrorCode::out_of_budget),
              HasSubstr("--strata-activation-memory to at least 256 KiB"));
  error_of([&] { store.fetch(1, bytes); }, ErrorCode::invalid_argument);
}

// In backward order each piece that gave up its buffer is loaded once, and the next key's before it is asked for.
TEST(ActivationStaging, reads_ahead_in_the_reverse_order_of_stashing) {
  constexpr std::size_t keys = 8, pieces = 2, buffers = 4;
  Home home(Under::shuffling, keys * pieces, buffers, 3);
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t before = home.tier->counters().loaded_bytes;
    for (std::uint64_t key = 0; key < keys; ++key) home.store->stash(key, bytes_of(key + round, pieces * piece));
    EXPECT_EQ(home.tier->counters().loaded_bytes, before);
    home.expect_fetch(keys - 1, bytes_of(keys - 1 + round, pieces * piece));  // still staged
    home.expect_fetch(keys - 2, bytes_of(keys - 2 + round, pieces * piece));
    for (std::uint64_t key = keys - 2; key-- > 0;) home.expect_fetch(key, bytes_of(key + round, pieces * piece));
    EXPECT_EQ(home.tier->counters().loaded_bytes - before, (keys * pieces - buffers) * piece);
  }
}

TEST(ActivationStaging, loads_begin_before_they_are_asked_for) {
  Home home(Under::shuffling, 4, 2, 3);
  for (std::uint64_t key = 0; key < 4; ++key) home.store->stash(key, bytes_of(key, piece));
  home.expect_fetch(3, bytes_of(3, piece));
  home.expect_fetch(2, bytes_of(2, piece));
  EXPECT_GT(home.tier->counters().loaded_bytes, 0u);
  home.store->drop_all();
}

TEST(ActivationStaging, stash_returns_while_the_disk_is_still_busy) {
  Home home(Under::shuffling, 4, 2, 3);
  home.tier->close();
  home.store->stash(1, bytes_of(1, 2 * piece));
  home.expect_fetch(1, bytes_of(1, 2 * piece));
  EXPECT_EQ(home.store->waited_s(), 0);
  home.tier->open();
}

TEST(ActivationStaging, a_failed_store_is_reported_by_a_later_call_and_its_key_is_whole) {
  Home home(Under::shuffling, 8, 2, 3);
  home.tier->fail_stores(1);
  home.store->stash(1, bytes_of(1, piece));
  home.tier->wait_until_idle();
  const std::string text = error_of(
      [&] {
        for (std::uint64_t key = 2; key < 6; ++key) home.store->stash(key, bytes_of(key, piece));
      },
      ErrorCode::io);
  EXPECT_THAT(text, HasSubstr("this store fails"));
  home.expect_fetch(1, bytes_of(1, piece));
  home.store->drop_all();
}

TEST(ActivationStaging, a_failed_load_leaves_the_key) {
  Home home(Under::shuffling, 8, 1, 3);
  home.store->stash(1, bytes_of(1, 2 * piece));
  home.store->stash(2, bytes_of(2, piece));
  home.tier->fail_loads(1);
  std::vector<std::byte> room(2 * piece);
  EXPECT_THAT(error_of([&] { home.store->fetch(1, room); }, ErrorCode::io), HasSubstr("this load fails"));
  home.expect_fetch(1, bytes_of(1, 2 * piece));
  home.expect_fetch(2, bytes_of(2, piece));
}

TEST(ActivationStaging, a_flipped_bit_is_found) {
  Home home(Under::shuffling, 8, 1, 3);
  home.store->stash(1, bytes_of(1, piece));
  home.store->stash(2, bytes_of(2, piece));  // takes the only buffer, so key 1 is on the disk
  home.tier->contents()[12345] ^= std::byte{4};
  std::vector<std::byte> room(piece);
  EXPECT_THAT(error_of([&] { home.store->fetch(1, room); }, ErrorCode::corruption), HasSubstr("activation"));
  home.tier->contents()[12345] ^= std::byte{4};
  home.expect_fetch(1, bytes_of(1, piece));
  home.expect_fetch(2, bytes_of(2, piece));
}

TEST(ActivationNeeds, room_in_pieces_and_staging_for_a_disk_alone) {
  Options options;
  EXPECT_EQ(activation_needs(options, TierKind::nvme).room_bytes, 0u);
  EXPECT_EQ(activation_needs(options, TierKind::nvme).host_extra_bytes(), 0u);
  options.activation_memory_bytes = 400 * piece + 1;
  const ActivationNeeds memory = activation_needs(options, TierKind::host);
  EXPECT_EQ(memory.room_bytes, 401 * piece);
  EXPECT_EQ(memory.staging_bytes, 0u);
  const ActivationNeeds disk = activation_needs(options, TierKind::nvme);
  EXPECT_EQ(disk.room_bytes, 401 * piece);
  EXPECT_EQ(disk.staging_bytes, 2 * options.io_inflight_bytes);
  options.activation_memory_bytes = 2048 * piece;
  EXPECT_EQ(activation_needs(options, TierKind::nvme).staging_bytes, 256 * piece);
  options.activation_memory_bytes = 3 * piece;
  EXPECT_EQ(activation_needs(options, TierKind::nvme).staging_bytes, 3 * piece);
}

}  // namespace
}  // namespace strata::engine
