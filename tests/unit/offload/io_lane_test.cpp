#include "offload/io_lane.h"

#include <cerrno>
#include <deque>
#include <functional>

#include <gmock/gmock.h>

namespace strata::offload {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

// Does what the test says with each attempt, and remembers all of them.
class ScriptedIo final : public BlockIo {
 public:
  std::function<std::int64_t(const Block&)> answer = [](const Block& block) { return std::int64_t{block.size_bytes}; };
  std::vector<Block> attempts;
  std::deque<BlockResult> done;

  void submit(const Block& block) override {
    attempts.push_back(block);
    done.push_back({block.token, answer(block)});
  }
  std::size_t reap(std::span<BlockResult> results, milliseconds) override {
    std::size_t count = 0;
    for (; count < results.size() && !done.empty(); done.pop_front()) results[count++] = done.front();
    return count;
  }
  void wake() override {}
  std::string name() const override { return "scripted"; }
};

class IoLaneTest : public testing::Test {
 protected:
  IoLaneTest() : lane_({{1, 1 << 20}, {"the file"}, 16384, 65536, 4096}, 8), memory_(1 << 20) {}

  IoRequest request(IoAct act, std::uint64_t offset, std::uint64_t size) {
    IoRequest made;
    made.act = act;
    made.offset = offset;
    made.size_bytes = size;
    made.address = memory_.data();
    return made;
  }

  // Drives one request to its end, within a bounded number of turns.
  void finish(IoRequest& request) {
    lane_.add(request);
    int finished_count = 0;
    for (int turn = 0; turn < 1000 && finished_count == 0; ++turn) {
      lane_.issue(io_);
      lane_.reap(io_, milliseconds(0));
      lane_.take_finished([&](IoRequest& finished) {
        EXPECT_EQ(&finished, &request);
        ++finished_count;
      });
    }
    EXPECT_EQ(finished_count, 1);
    EXPECT_FALSE(lane_.has_under_way());
  }

  Error failure_of(IoAct act, const std::function<std::int64_t(const Block&)>& answer) {
    io_.answer = answer;
    IoRequest failing = request(act, 8192, 4096);
    finish(failing);
    EXPECT_TRUE(failing.cause.has_value());
    return failing.cause.value_or(Error(ErrorCode::ended, "none"));
  }

  IoLane lane_;
  ScriptedIo io_;
  std::vector<std::byte> memory_;
};

TEST_F(IoLaneTest, SplitsIntoBlocks) {
  IoRequest whole = request(IoAct::read, 4096, 40960);
  finish(whole);
  EXPECT_FALSE(whole.cause);
  ASSERT_EQ(io_.attempts.size(), 3u);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(io_.attempts[i].offset, 4096 + i * 16384);
    EXPECT_EQ(io_.attempts[i].address, memory_.data() + i * 16384);
    EXPECT_EQ(io_.attempts[i].size_bytes, i < 2 ? 16384u : 8192u);
  }
}

TEST_F(IoLaneTest, KeepsTheLimitUnderWayAndTheOrder) {
  IoRequest first = request(IoAct::write, 0, 100 << 10), second = request(IoAct::read, 1 << 20, 8192);
  lane_.add(first);
  lane_.add(second);
  lane_.issue(io_);
  EXPECT_EQ(io_.attempts.size(), 4u);  // 64 KiB
  lane_.reap(io_, milliseconds(0));
  lane_.issue(io_);
  ASSERT_EQ(io_.attempts.size(), 8u);
  EXPECT_EQ(io_.attempts[6].act, IoAct::write);
  EXPECT_EQ(io_.attempts[7].act, IoAct::read);
  EXPECT_EQ(io_.attempts[7].offset, 1u << 20);
}

TEST_F(IoLaneTest, ABlockLargerThanTheLimitGoesAlone) {
  IoLane small({{1, 1 << 20}, {"the file"}, 16384, 4096, 4096}, 8);
  IoRequest whole = request(IoAct::read, 0, 32768);
  small.add(whole);
  small.issue(io_);
  EXPECT_EQ(io_.attempts.size(), 1u);
}

TEST_F(IoLaneTest, ResumesFromTheLastAlignedByte) {
  std::deque<std::int64_t> counts = {5000, 8191, 4096, 4096};
  io_.answer = [&](const Block&) {
    const std::int64_t count = counts.front();
    counts.pop_front();
    return count;
  };
  IoRequest whole = request(IoAct::read, 0, 16384);
  finish(whole);
  EXPECT_FALSE(whole.cause);
  ASSERT_EQ(io_.attempts.size(), 4u);
  EXPECT_EQ(io_.attempts[1].offset, 4096u);
  EXPECT_EQ(io_.attempts[2].offset, 8192u);
  EXPECT_EQ(io_.attempts[3].offset, 12288u);
  EXPECT_EQ(io_.attempts[3].address, memory_.data() + 12288);
  EXPECT_EQ(io_.attempts[3].size_bytes, 4096u);
}

TEST_F(IoLaneTest, TriesPassingFaultsAgain) {
  for (const int cause : {EINTR, EAGAIN, EBUSY, ECANCELED}) {
    io_.attempts.clear();
    io_.answer = [&](const Block& block) -> std::int64_t {
      return io_.attempts.size() <= retry_count_max ? -cause : std::int64_t{block.size_bytes};
    };
    IoRequest lucky = request(IoAct::write, 0, 4096);
    finish(lucky);
    EXPECT_FALSE(lucky.cause) << cause;
    EXPECT_EQ(io_.attempts.size(), retry_count_max + 1u);
  }
}

TEST_F(IoLaneTest, GivesUpAfterTheBound) {
  for (const int cause : {EINTR, EAGAIN, EBUSY, ECANCELED}) {
    io_.attempts.clear();
    const Error error = failure_of(IoAct::read, [&](const Block&) { return std::int64_t{-cause}; });
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), HasSubstr("read of 4096 bytes at offset 8192 of the file"));
    EXPECT_THAT(error.what(), HasSubstr("(errno " + std::to_string(cause) + "), 4 times"));
    EXPECT_EQ(io_.attempts.size(), retry_count_max + 1u);
  }
}

TEST_F(IoLaneTest, AReadErrorIsTriedAgainAWriteErrorNever) {
  EXPECT_EQ(failure_of(IoAct::read, [](const Block&) { return std::int64_t{-EIO}; }).code(), ErrorCode::io);
  EXPECT_EQ(io_.attempts.size(), retry_count_max + 1u);
  io_.attempts.clear();
  EXPECT_EQ(failure_of(IoAct::write, [](const Block&) { return std::int64_t{-EIO}; }).code(), ErrorCode::io);
  EXPECT_EQ(io_.attempts.size(), 1u);
  EXPECT_THAT(failure_of(IoAct::write, [](const Block&) { return std::int64_t{-ENOSPC}; }).what(),
              HasSubstr("write of 4096 bytes at offset 8192 of the file: No space left on device (errno 28)"));
}

TEST_F(IoLaneTest, AnEarlyEndIsCorruption) {
  EXPECT_EQ(failure_of(IoAct::read, [](const Block&) { return std::int64_t{0}; }).code(), ErrorCode::corruption);
  EXPECT_EQ(failure_of(IoAct::read, [](const Block&) { return std::int64_t{100}; }).code(), ErrorCode::corruption);
  EXPECT_EQ(failure_of(IoAct::write, [](const Block&) { return std::int64_t{0}; }).code(), ErrorCode::io);
}

TEST_F(IoLaneTest, MoreThanWasAskedForIsAnError) {
  EXPECT_EQ(failure_of(IoAct::read, [](const Block&) { return std::int64_t{4097}; }).code(), ErrorCode::io);
}

// Its other blocks come back first: the buffer is free when the request is finished.
TEST_F(IoLaneTest, AFailedRequestWaitsForItsBlocksAndBeginsNoMore) {
  IoRequest whole = request(IoAct::read, 0, 100 << 10), next = request(IoAct::read, 1 << 20, 4096);
  io_.answer = [](const Block& block) { return block.offset == 0 ? -EINVAL : std::int64_t{block.size_bytes}; };
  lane_.add(whole);
  lane_.add(next);
  lane_.issue(io_);
  const BlockResult failed = io_.done.front();
  std::deque<BlockResult> rest(io_.done.begin() + 1, io_.done.end());
  io_.done = {failed};
  lane_.reap(io_, milliseconds(0));
  lane_.issue(io_);
  std::vector<IoRequest*> finished;
  const auto take = [&] { lane_.take_finished([&](IoRequest& request) { finished.push_back(&request); }); };
  take();
  EXPECT_TRUE(finished.empty());
  EXPECT_EQ(io_.attempts.size(), 5u);  // four of the failed one, one of the next
  io_.done.insert(io_.done.end(), rest.begin(), rest.end());
  lane_.reap(io_, milliseconds(0));
  take();
  EXPECT_EQ(finished.size(), 2u);
  EXPECT_TRUE(whole.cause);
  EXPECT_FALSE(next.cause);
}

TEST_F(IoLaneTest, StripesOverFiles) {
  IoLane striped({{3, 8192}, {"a", "b", "c"}, 16384, 1 << 20, 4096}, 8);
  IoRequest whole = request(IoAct::write, 4096, 32768);
  striped.add(whole);
  striped.issue(io_);
  ASSERT_EQ(io_.attempts.size(), 5u);
  const std::vector<std::uint32_t> files = {0, 1, 2, 0, 1};
  const std::vector<std::uint64_t> offsets = {4096, 0, 0, 8192, 8192}, sizes = {4096, 8192, 8192, 8192, 4096};
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(io_.attempts[i].file, files[i]);
    EXPECT_EQ(io_.attempts[i].offset, offsets[i]);
    EXPECT_EQ(io_.attempts[i].size_bytes, sizes[i]);
  }
}

}  // namespace
}  // namespace strata::offload
