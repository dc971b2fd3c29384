#include "contract/tier_contract.h"

#include "offload/host_tier.h"
#include "offload/nvme_tier.h"
#include "support/faulty_block_io.h"
#include "support/fresh_folder.h"

namespace strata::test {
namespace {

using offload::BlockIo;
using offload::DiskOptions;
using offload::HostTier;
using offload::NvmeTier;

// A folder's life is its tier's.
class FolderTier final : public Tier {
 public:
  FolderTier(std::uint64_t capacity_bytes, IoBackend backend, std::size_t folder_count,
             const NvmeTier::BlockIoWrap& wrap = {})
      : folders_(folder_count) {
    DiskOptions options;
    for (const FreshFolder& folder : folders_) options.dirs.push_back(folder.path());
    options.capacity_bytes = capacity_bytes;
    options.backend = backend;
    options.block_bytes = 32 << 10;  // a request is several blocks
    options.inflight_bytes = 256 << 10;
    options.request_count = 48;  // some calls wait for room
    tier_ = std::make_unique<NvmeTier>(options, wrap);
  }
  ~FolderTier() override {
    for (const FreshFolder& folder : folders_) EXPECT_TRUE(folder.is_empty());
  }

  TierKind kind() const override { return tier_->kind(); }
  std::string name() const override { return tier_->name(); }
  std::uint64_t capacity_bytes() const override { return tier_->capacity_bytes(); }
  std::uint64_t reserved_bytes() const override { return tier_->reserved_bytes(); }
  std::size_t alignment_bytes() const override { return tier_->alignment_bytes(); }
  Extent reserve(std::uint64_t size_bytes) override { return tier_->reserve(size_bytes); }
  Event load(const Extent& extent, std::uint64_t first_byte, std::span<std::byte> target) override {
    return tier_->load(extent, first_byte, target);
  }
  Event store(const Extent& extent, std::uint64_t first_byte, std::span<const std::byte> source) override {
    return tier_->store(extent, first_byte, source);
  }
  std::span<std::byte> memory(const Extent& extent) const override { return tier_->memory(extent); }
  TierCounters counters() const override { return tier_->counters(); }

 private:
  std::vector<FreshFolder> folders_;
  std::unique_ptr<NvmeTier> tier_;
};

TierCase memory_case(const std::string& name, TierKind kind) {
  TierCase made;
  made.name = name;
  made.make = [kind](std::uint64_t bytes) { return std::make_unique<HostTier>(bytes, kind); };
  return made;
}

TierCase disk_case(const std::string& name, IoBackend backend, std::size_t folder_count = 1) {
  return {name, [=](std::uint64_t bytes) { return std::make_unique<FolderTier>(bytes, backend, folder_count); },
          [=]() -> std::string {
            try {
              FolderTier(4096, backend, 1);
            } catch (const Error& error) {
              if (error.code() == ErrorCode::unsupported) return error.what();
            }
            return {};
          }};
}

// All faults that a tier has to make good.
TierCase faulty_case(std::uint64_t seed) {
  const NvmeTier::BlockIoWrap wrap = [seed](std::unique_ptr<BlockIo> io) {
    const FaultRates rates = {.short_count = 0.2, .passing = 0.2, .delay = 0.3};
    return std::make_unique<FaultyBlockIo>(seed, rates, std::move(io), std::make_shared<FaultLog>());
  };
  TierCase made;
  made.name = "faulty_" + std::to_string(seed);
  made.make = [=](std::uint64_t bytes) {
    return std::make_unique<FolderTier>(bytes, IoBackend::automatic, 1 + seed % 2, wrap);
  };
  return made;
}

INSTANTIATE_TEST_SUITE_P(Tiers, TierContract,
                         testing::Values(memory_case("host", TierKind::host), memory_case("device", TierKind::device),
                                         disk_case("uring", IoBackend::uring), disk_case("threads", IoBackend::threads),
                                         disk_case("uring_striped", IoBackend::uring, 3),
                                         disk_case("threads_striped", IoBackend::threads, 2), faulty_case(1),
                                         faulty_case(2)),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace strata::test
