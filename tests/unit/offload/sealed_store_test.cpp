#include "offload/sealed_store.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>

#include "offload/checksum.h"
#include "offload/checksum_kernels.h"
#include "offload/host_tier.h"
#include "offload/nvme_tier.h"
#include "offload/private_memory.h"
#include "support/fresh_folder.h"
#include "support/same_bytes.h"

namespace strata::test {
namespace {

using offload::Content;
using offload::Copies;
using offload::HostTier;
using offload::NvmeTier;
using offload::PrivateMemory;
using offload::SealedStore;
using testing::HasSubstr;

constexpr std::size_t item_bytes = 64 << 10;

TEST(Checksum, IsXxh3) {
  EXPECT_EQ(offload::checksum({}, 0), 0x2D06800538D394C2u);  // the reference's own value for no bytes and seed 0
}

#if defined(__x86_64__)
TEST(Checksum, IsTheSameFromEveryKernel) {
  const PrivateMemory memory(100'000);
  fill_random(memory.bytes(), 3);
  for (const std::size_t size : {0u, 1u, 16u, 100u, 200u, 240u, 241u, 1024u, 1025u, 4096u, 65537u, 99'999u}) {
    const void* const bytes = memory.bytes().data() + size % 3;
    std::vector<offload::ChecksumKernel> kernels;
    if (__builtin_cpu_supports("avx2")) kernels.push_back(offload::checksum_avx2);
    if (__builtin_cpu_supports("avx512f")) kernels.push_back(offload::checksum_avx512);
    for (const auto kernel : kernels)
      EXPECT_EQ(kernel(bytes, size, 5), offload::checksum_baseline(bytes, size, 5)) << size;
  }
}
#endif

TEST(Checksum, SeesEveryBitAndTheSeed) {
  const PrivateMemory memory(4096);
  fill_random(memory.bytes(), 1);
  const std::uint64_t whole = offload::checksum(memory.bytes(), 7);
  EXPECT_NE(whole, offload::checksum(memory.bytes(), 8));
  EXPECT_NE(whole, offload::checksum(memory.bytes().first(4095), 7));
  for (std::size_t bit = 0; bit < 4096 * 8; ++bit) {
    const auto mask = std::byte{static_cast<unsigned char>(1 << bit % 8)};
    memory.bytes()[bit / 8] ^= mask;
    ASSERT_NE(whole, offload::checksum(memory.bytes(), 7)) << bit;
    memory.bytes()[bit / 8] ^= mask;
  }
}

// On a disk, where a hand from outside can change what is stored.
class SealedStoreTest : public testing::Test {
 protected:
  SealedStoreTest() : source_(item_bytes), target_(item_bytes) {
    offload::DiskOptions options;
    options.dirs = {folder_.path()};
    options.capacity_bytes = 1 << 20;
    options.block_bytes = 16 << 10;
    tier_ = std::make_unique<NvmeTier>(options);
    store_ = std::make_unique<SealedStore>(*tier_);
  }

  void put(std::size_t item, std::uint64_t seed) {
    fill_random(source_.bytes(), seed);
    store_->store(item, source_.bytes()).wait();
  }

  void take(std::size_t item) { store_->finish_load(item, store_->load(item, target_.bytes()), target_.bytes()); }

  void expect_corruption(std::size_t item, const std::string& identity) {
    const Error error = error_of([&] { take(item); });
    EXPECT_EQ(error.code(), ErrorCode::corruption) << error.what();
    EXPECT_THAT(error.what(), HasSubstr(identity));
    EXPECT_THAT(error.what(), HasSubstr(tier_->name()));
  }

  int file() const { return tier_->files().fds().front(); }

  // Behind the store's back: `size` bytes from one offset of the file to another.
  void copy_in_file(off_t from, off_t to) const {
    const PrivateMemory buffer(item_bytes);
    ASSERT_EQ(::pread(file(), buffer.bytes().data(), item_bytes, from), static_cast<ssize_t>(item_bytes));
    ASSERT_EQ(::pwrite(file(), buffer.bytes().data(), item_bytes, to), static_cast<ssize_t>(item_bytes));
  }

  const FreshFolder folder_;
  const PrivateMemory source_, target_;
  std::unique_ptr<NvmeTier> tier_;
  std::unique_ptr<SealedStore> store_;
};

TEST_F(SealedStoreTest, GivesBackTheLatestVersion) {
  for (const Copies copies : {Copies::one, Copies::two}) {
    const std::size_t item = store_->add({Content::record, 1, 2}, item_bytes, copies);
    EXPECT_EQ(store_->version(item), 0u);
    for (std::uint64_t version = 1; version <= 5; ++version) {
      put(item, 10 * version);
      EXPECT_EQ(store_->version(item), version);
      take(item);
      EXPECT_TRUE(same_bytes(source_.bytes(), target_.bytes()));
    }
  }
}

TEST_F(SealedStoreTest, RoundsUpToTheTier) {
  const std::size_t item = store_->add({}, 5000, Copies::two);
  EXPECT_EQ(store_->padded_bytes(item), 2 * tier_->alignment_bytes());
  EXPECT_EQ(tier_->reserved_bytes(), 4 * tier_->alignment_bytes());
}

TEST_F(SealedStoreTest, TwoCopiesKeepTheVersionBefore) {
  const std::size_t item = store_->add({}, item_bytes, Copies::two);
  put(item, 1);
  put(item, 2);
  const PrivateMemory before(item_bytes), raw(item_bytes);
  fill_random(before.bytes(), 1);
  // Version 1 lies in the second half.
  ASSERT_EQ(::pread(file(), raw.bytes().data(), item_bytes, item_bytes), static_cast<ssize_t>(item_bytes));
  EXPECT_TRUE(same_bytes(before.bytes(), raw.bytes()));
}

TEST_F(SealedStoreTest, FindsAFlippedBit) {
  const std::size_t item = store_->add({Content::record, 3, 7}, item_bytes, Copies::one);
  put(item, 1);
  const PrivateMemory page(4096);
  ASSERT_EQ(::pread(file(), page.bytes().data(), 4096, 8192), 4096);
  page.bytes()[100] ^= std::byte{16};
  ASSERT_EQ(::pwrite(file(), page.bytes().data(), 4096, 8192), 4096);
  expect_corruption(item, "record of unit 3, chunk 7, version 1");
}

TEST_F(SealedStoreTest, FindsAnOldVersionInPlace) {
  const std::size_t item = store_->add({Content::accumulator, 4, 1}, item_bytes, Copies::one);
  const std::size_t spare = store_->add({Content::record, 9, 9}, item_bytes, Copies::one);
  put(spare, 1);
  put(item, 1);
  copy_in_file(0, item_bytes);
  put(item, 2);
  copy_in_file(item_bytes, 0);  // as if the second write had never reached the disk
  expect_corruption(item, "accumulator of unit 4, chunk 1, version 2");
}

TEST_F(SealedStoreTest, FindsTheOtherCopyInPlace) {
  const std::size_t item = store_->add({Content::published, 5, 0}, item_bytes, Copies::two);
  put(item, 1);
  put(item, 2);
  copy_in_file(item_bytes, 0);
  expect_corruption(item, "published shard of unit 5, chunk 0, version 2");
}

// Even where both have the same version.
TEST_F(SealedStoreTest, FindsAnotherItemInPlace) {
  const std::size_t first = store_->add({Content::record, 6, 0}, item_bytes, Copies::one);
  const std::size_t second = store_->add({Content::record, 6, 1}, item_bytes, Copies::one);
  put(first, 1);
  put(second, 2);
  copy_in_file(0, item_bytes);
  take(first);
  expect_corruption(second, "record of unit 6, chunk 1, version 1");
}

TEST_F(SealedStoreTest, FindsThatTheFileIsTruncated) {
  const std::size_t first = store_->add({Content::record, 0, 0}, item_bytes, Copies::one);
  const std::size_t second = store_->add({Content::activation, 8, 2}, item_bytes, Copies::one);
  put(first, 1);
  put(second, 2);
  for (const off_t size : {off_t{item_bytes}, off_t{item_bytes + 8192}, off_t{item_bytes + 8192 + 1000}}) {
    ASSERT_EQ(::ftruncate(file(), size), 0);
    take(first);
    expect_corruption(second, "activation of unit 8, chunk 2, version 1");
  }
}

// The same bits under another name are another item's: the seal has the identity in it.
TEST(SealedStoreOfMemory, SealsDifferByIdentityAndVersion) {
  HostTier tier(1 << 20);
  const PrivateMemory memory(4096);
  std::vector<std::unique_ptr<SealedStore>> stores;
  const auto sealed = [&](const offload::Identity& identity, int version) {
    auto& store = *stores.emplace_back(std::make_unique<SealedStore>(tier));
    store.add(identity, 4096, Copies::one);
    for (int i = 0; i < version; ++i) store.store(0, memory.bytes()).wait();
    memory.bytes()[0] ^= std::byte{1};
    const Error error = error_of([&] { store.verify(0, memory.bytes()); });
    memory.bytes()[0] ^= std::byte{1};
    return error;
  };
  // The text has the checksums of the same changed bytes: they differ, so the seeds do.
  std::vector<std::string> checksums;
  for (const auto& error :
       {sealed({Content::record, 1, 1}, 1), sealed({Content::published, 1, 1}, 1), sealed({Content::record, 2, 1}, 1),
        sealed({Content::record, 1, 2}, 1), sealed({Content::record, 1, 1}, 2), sealed({Content::record, 0, 1}, 1)}) {
    const std::string text = error.what();
    checksums.push_back(text.substr(text.find("checksum ") + 9, 16));
  }
  std::sort(checksums.begin(), checksums.end());
  EXPECT_EQ(std::unique(checksums.begin(), checksums.end()), checksums.end());
}

}  // namespace
}  // namespace strata::test
