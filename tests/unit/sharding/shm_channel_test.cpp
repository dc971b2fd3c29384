#include "sharding/transport/shm_channel.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace strata::sharding {
namespace {

using testing::HasSubstr;

class ShmChannelTest : public testing::Test {
 protected:
  const std::shared_ptr<ExchangeSegment> segment_ = std::make_shared<ExchangeSegment>(make_segment_file());

  JobControl& job() {
    mapping_ = segment_->map(0, control_bytes(2));
    return *reinterpret_cast<JobControl*>(mapping_.get());
  }
  std::string failure_of(ShmChannel& channel) {
    try {
      channel.open_call({.operation = Operation::barrier});
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  }

 private:
  std::shared_ptr<std::byte> mapping_;
};

TEST_F(ShmChannelTest, ARankThatDiesWhileItWritesItsCauseHangsNobody) {
  ShmChannel channel(segment_, 0, 2, {});
  job().abort_state.store(2 * 1 + 1);
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_THAT(failure_of(channel), HasSubstr("peer_lost: rank 1 ended while it reported a failure"));
  channel.abort(0, "a later cause");
  EXPECT_THAT(failure_of(channel), HasSubstr("peer_lost: rank 1 ended"));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(1));
}

TEST_F(ShmChannelTest, ALongCauseIsCutNotOverrun) {
  ShmChannel channel(segment_, 0, 2, {});
  channel.abort(1, std::string(5000, 'x'));
  const std::string text = failure_of(channel);
  EXPECT_EQ(text, "peer_lost: " + std::string(abort_text_bytes - 1, 'x'));
}

TEST_F(ShmChannelTest, ARankThatNeverCameIsSilent) {
  ShmChannel channel(segment_, 0, 2, {.silence_s = 0.1});
  EXPECT_THAT(failure_of(channel), HasSubstr("peer_lost: rank 1 has given no sign of life"));
}

TEST_F(ShmChannelTest, ALateRankIsWaitedForAndHundredThousandCallsPair) {
  ShmChannel first(segment_, 0, 2, {});
  std::thread peer([this] {
    ShmChannel second(segment_, 1, 2, {});
    for (int call = 0; call < 100'000; ++call) second.open_call({.operation = Operation::barrier});
    for (int call = 0; call < 1000; ++call) second.arrive();
  });
  for (int call = 0; call < 100'000; ++call) first.open_call({.operation = Operation::barrier});
  for (int call = 0; call < 1000; ++call) first.arrive();
  peer.join();
  EXPECT_GE(first.peer_wait_s(), 0);
}

}  // namespace
}  // namespace strata::sharding
