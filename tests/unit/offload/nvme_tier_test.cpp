#include "offload/nvme_tier.h"

#include <gmock/gmock.h>

#include "support/fresh_folder.h"
#include "support/small_disk.h"

namespace strata::test {
namespace {

using offload::DiskOptions;
using offload::NvmeTier;
using offload::PrivateMemory;
using testing::HasSubstr;

TEST(NvmeTier, SaysWhatItIs) {
  const FreshFolder folder;
  NvmeTier tier(small_disk({folder.path()}, IoBackend::threads));
  EXPECT_EQ(tier.kind(), TierKind::nvme);
  EXPECT_EQ(tier.backend_name(), "threads");
  EXPECT_EQ(tier.name(), tier.is_direct() ? "nvme (threads, direct)" : "nvme (threads, buffered)");
  EXPECT_EQ(tier.warnings().size(), tier.is_direct() ? 0u : 1u);
  EXPECT_EQ(tier.capacity_bytes(), 1u << 20);
}

TEST(NvmeTier, RefusesOptionsOutOfBounds) {
  const FreshFolder folder;
  for (const std::uint64_t block_bytes : {0u, 100u, 4097u, (1u << 30) + 4096u}) {
    DiskOptions options = small_disk({folder.path()});
    options.block_bytes = block_bytes;
    EXPECT_EQ(error_of([&] { NvmeTier tier(options); }).code(), ErrorCode::invalid_argument);
  }
  DiskOptions options = small_disk({folder.path()});
  options.request_count = 0;
  EXPECT_EQ(error_of([&] { NvmeTier tier(options); }).code(), ErrorCode::invalid_argument);
  options = small_disk({folder.path()});
  options.stall_s = 0;
  EXPECT_EQ(error_of([&] { NvmeTier tier(options); }).code(), ErrorCode::invalid_argument);
}

// Blocks within the registered memory, blocks outside, and those that lie across its end.
TEST(NvmeTier, RegisteredMemoryIsLikeAnyOther) {
  const FreshFolder folder;
  constexpr std::size_t size = 1 << 20;
  const PrivateMemory source(size), target(size);
  DiskOptions options = small_disk({folder.path()});
  options.buffers = {source.bytes().first((300 << 10) + 4096), target.bytes().subspan(200 << 10, 500 << 10)};
  NvmeTier tier(options);
  const Extent extent = tier.reserve(size);
  fill_random(source.bytes(), 1);
  tier.store(extent, 0, source.bytes()).wait();
  tier.load(extent, 0, target.bytes()).wait();
  EXPECT_TRUE(same_bytes(source.bytes(), target.bytes()));
}

TEST(NvmeTier, WhatWasNeverStoredReadsAsZeros) {
  const FreshFolder folder;
  NvmeTier tier(small_disk({folder.path()}));
  const Extent extent = tier.reserve(64 << 10);
  const PrivateMemory target(64 << 10), zeros(64 << 10);
  fill_random(target.bytes(), 1);
  tier.load(extent, 0, target.bytes()).wait();
  EXPECT_TRUE(same_bytes(target.bytes(), zeros.bytes()));
}

TEST(NvmeTier, BackendsAgreeToTheBit) {
  const FreshFolder folder;
  const PrivateMemory source(256 << 10), target(256 << 10);
  fill_random(source.bytes(), 9);
  for (const IoBackend backend : {IoBackend::automatic, IoBackend::threads}) {
    for (const std::uint64_t block_bytes : {4096, 8192, 1 << 20}) {
      for (const std::uint64_t inflight_bytes : {1, 16384, 8 << 20}) {
        DiskOptions options = small_disk({folder.path(), folder.path()}, backend);
        options.block_bytes = block_bytes;
        options.inflight_bytes = inflight_bytes;
        NvmeTier tier(options);
        tier.reserve(4096);
        const Extent extent = tier.reserve(256 << 10);
        tier.store(extent, 0, source.bytes()).wait();
        tier.load(extent, 0, target.bytes()).wait();
        EXPECT_TRUE(same_bytes(source.bytes(), target.bytes())) << tier.name() << " " << block_bytes;
      }
    }
  }
}

}  // namespace
}  // namespace strata::test
