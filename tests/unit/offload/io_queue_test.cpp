#include "offload/io_queue.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <gmock/gmock.h>

#include "support/same_bytes.h"

namespace strata::offload {
namespace {

using std::chrono::milliseconds;
using test::error_of;
using testing::HasSubstr;

constexpr std::size_t unlimited = ~std::size_t{0};

// A disk whose door the test holds: so many blocks come back.
struct Doors {
  std::mutex mutex;
  std::condition_variable changed;
  std::size_t pass_count = unlimited;
  bool woken = false;
  bool breaks = false;  // reap throws
  std::size_t submitted_count = 0;

  void let_pass(std::size_t count) {
    {
      const std::lock_guard lock(mutex);
      pass_count = count;
    }
    changed.notify_all();
  }
  void wait_for_submitted(std::size_t count) {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, std::chrono::seconds(20), [&] { return submitted_count >= count; }));
  }
};

class DoorsIo final : public BlockIo {
 public:
  explicit DoorsIo(std::shared_ptr<Doors> doors) : doors_(std::move(doors)) {}

  void submit(const Block& block) override {
    {
      const std::lock_guard lock(doors_->mutex);
      ++doors_->submitted_count;
      done_.push_back({block.token, block.size_bytes});
    }
    doors_->changed.notify_all();
  }
  std::size_t reap(std::span<BlockResult> results, milliseconds time) override {
    std::unique_lock lock(doors_->mutex);
    doors_->changed.wait_for(
        lock, time, [&] { return (doors_->pass_count > 0 && !done_.empty()) || doors_->woken || doors_->breaks; });
    doors_->woken = false;
    if (doors_->breaks) throw Error(ErrorCode::io, "the ring is gone");
    const std::size_t count = std::min({done_.size(), results.size(), doors_->pass_count});
    if (doors_->pass_count != unlimited) doors_->pass_count -= count;
    std::copy_n(done_.begin(), count, results.begin());
    done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
    return count;
  }
  void wake() override {
    {
      const std::lock_guard lock(doors_->mutex);
      doors_->woken = true;
    }
    doors_->changed.notify_all();
  }
  std::string name() const override { return "doors"; }

 private:
  const std::shared_ptr<Doors> doors_;
  std::vector<BlockResult> done_;
};

class IoQueueTest : public testing::Test {
 protected:
  std::unique_ptr<IoQueue> make(double stall_s = 60, std::size_t request_count = 4) {
    IoQueueSetup setup;
    setup.limits = {{1, 1 << 20}, {"the file"}, 4096, 8192, 4096};
    setup.fds = {-1};
    setup.request_count = request_count;
    setup.stall_s = stall_s;
    return std::make_unique<IoQueue>(setup, [this](const BlockIoSetup&) { return std::make_unique<DoorsIo>(doors_); });
  }

  std::shared_ptr<Doors> doors_ = std::make_shared<Doors>();
  std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 20);
};

TEST_F(IoQueueTest, WhatTheFactoryThrowsIsTheConstructors) {
  const Error error = error_of([] {
    IoQueue queue(IoQueueSetup{}, [](const BlockIoSetup&) -> std::unique_ptr<BlockIo> {
      throw Error(ErrorCode::unsupported, "no such ring");
    });
  });
  EXPECT_EQ(error.code(), ErrorCode::unsupported);
  EXPECT_EQ(error.text(), "no such ring");
}

// More requests than it has room for: the caller waits, and all of them are done.
TEST_F(IoQueueTest, TakesAnyNumberOfRequests) {
  const auto queue = make();
  std::vector<Event> events;
  for (int i = 0; i < 100; ++i) events.push_back(queue->enqueue(IoAct::write, 0, memory_.data(), 12288));
  for (const Event& event : events) EXPECT_TRUE(event.wait_for(std::chrono::seconds(20)));
  EXPECT_EQ(queue->counters().stored_bytes, 100u * 12288);
}

TEST_F(IoQueueTest, ADiskThatStandsStillIsAnErrorInTime) {
  const auto queue = make(0.05);
  doors_->let_pass(0);
  const Event under_way = queue->enqueue(IoAct::read, 0, memory_.data(), 8192);
  const Event waiting = queue->enqueue(IoAct::read, 8192, memory_.data(), 8192);
  for (const Event& event : {under_way, waiting}) {
    const Error error = error_of([&] {
      if (!event.wait_for(std::chrono::seconds(20))) throw Error(ErrorCode::ended, "it never ends");
    });
    EXPECT_EQ(error.code(), ErrorCode::io);
    EXPECT_THAT(error.what(), HasSubstr("the disk stands still: no byte has moved for 0.0"));
  }
  // Whoever comes now need not wait.
  EXPECT_EQ(error_of([&] { queue->enqueue(IoAct::read, 0, memory_.data(), 4096).wait(); }).code(), ErrorCode::io);

  // And when it moves again, so does the queue.
  doors_->let_pass(unlimited);
  bool works = false;
  for (int i = 0; i < 10'000 && !works; ++i) {
    try {
      queue->enqueue(IoAct::read, 0, memory_.data(), 4096).wait();
      works = true;
    } catch (const Error&) {
      std::this_thread::yield();
    }
  }
  EXPECT_TRUE(works);
}

// A slow disk is none that stands still: each byte that moves counts anew.
TEST_F(IoQueueTest, ASlowDiskIsNoError) {
  const auto queue = make(0.4);
  const auto begin = std::chrono::steady_clock::now();
  doors_->let_pass(0);
  const Event slow = queue->enqueue(IoAct::read, 0, memory_.data(), 10 * 4096);
  for (std::size_t i = 0; i < 10; ++i) {
    doors_->wait_for_submitted(std::min<std::size_t>(i + 2, 10));
    EXPECT_FALSE(slow.wait_for(milliseconds(50)));
    doors_->let_pass(1);
  }
  EXPECT_NO_THROW(slow.wait());
  EXPECT_GT(std::chrono::steady_clock::now() - begin, milliseconds(500));
}

TEST_F(IoQueueTest, WhatHasNotBegunFailsWithTheQueue) {
  auto queue = make(60, 16);
  doors_->let_pass(0);
  std::vector<Event> events;
  for (int i = 0; i < 8; ++i) events.push_back(queue->enqueue(IoAct::write, 0, memory_.data(), 4096));
  doors_->wait_for_submitted(2);
  std::thread ender([&] { queue.reset(); });
  // The last one fails before the first ones are done.
  EXPECT_THAT(error_of([&] { events.back().wait(); }).what(), HasSubstr("the tier ends before this request has begun"));
  EXPECT_FALSE(events.front().ready());
  doors_->let_pass(unlimited);
  ender.join();
  EXPECT_NO_THROW(events[0].wait());
  EXPECT_NO_THROW(events[1].wait());
  for (std::size_t i = 2; i < events.size(); ++i) EXPECT_EQ(error_of([&] { events[i].wait(); }).code(), ErrorCode::io);
}

TEST_F(IoQueueTest, ABackendThatBreaksFailsEverythingFromThenOn) {
  const auto queue = make();
  doors_->let_pass(0);
  const Event under_way = queue->enqueue(IoAct::read, 0, memory_.data(), 4096);
  {
    const std::lock_guard lock(doors_->mutex);
    doors_->breaks = true;
  }
  doors_->changed.notify_all();
  EXPECT_THAT(error_of([&] { under_way.wait(); }).what(), HasSubstr("the ring is gone"));
  for (int i = 0; i < 10; ++i)
    EXPECT_THAT(error_of([&] { queue->enqueue(IoAct::read, 0, memory_.data(), 4096).wait(); }).what(),
                HasSubstr("the ring is gone"));
}

}  // namespace
}  // namespace strata::offload
