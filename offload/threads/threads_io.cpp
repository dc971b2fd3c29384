// A pool that calls pread and pwrite: works wherever files do, and is the oracle that io_uring is compared with.
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <mutex>
#include <thread>

#include <strata/detail/thread_annotations.h>
#include "offload/block_io.h"

namespace strata::offload {
namespace {

constexpr std::uint32_t thread_count_max = 8;  // a disk is full with fewer

class ThreadsIo final : public BlockIo {
 public:
  explicit ThreadsIo(const BlockIoSetup& setup)
      : fds_(setup.fds), queued_(std::max(setup.depth, 1u)), done_(std::max(setup.depth, 1u)) {
    const std::uint32_t thread_count = std::clamp(setup.depth, 1u, thread_count_max);
    for (std::uint32_t i = 0; i < thread_count; ++i) threads_.emplace_back([this] { run(); });
  }

  ~ThreadsIo() override {
    {
      const std::lock_guard lock(mutex_);
      ending_ = true;
    }
    work_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void submit(const Block& block) override {
    {
      const std::lock_guard lock(mutex_);
      queued_[queued_end_++ % queued_.size()] = block;
    }
    work_.notify_one();
  }

  std::size_t reap(std::span<BlockResult> results, std::chrono::milliseconds time) override {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, time, [&] { return done_begin_ != done_end_ || woken_; });
    woken_ = false;
    std::size_t count = 0;
    while (count < results.size() && done_begin_ != done_end_) results[count++] = done_[done_begin_++ % done_.size()];
    return count;
  }

  void wake() override {
    {
      const std::lock_guard lock(mutex_);
      woken_ = true;
    }
    changed_.notify_one();
  }

  std::string name() const override { return "threads"; }

 private:
  void run() {
    for (;;) {
      Block block;
      {
        std::unique_lock lock(mutex_);
        work_.wait(lock, [&] { return queued_begin_ != queued_end_ || ending_; });
        if (ending_) return;
        block = queued_[queued_begin_++ % queued_.size()];
      }
      const BlockResult result = {block.token, move(block)};
      {
        const std::lock_guard lock(mutex_);
        done_[done_end_++ % done_.size()] = result;
      }
      changed_.notify_one();
    }
  }

  std::int64_t move(const Block& block) const {
    const int fd = fds_[block.file];
    const auto offset = static_cast<off_t>(block.offset);
    const ssize_t bytes = block.act == IoAct::read ? ::pread(fd, block.address, block.size_bytes, offset)
                                                   : ::pwrite(fd, block.address, block.size_bytes, offset);
    return bytes < 0 ? -errno : bytes;
  }

  const std::vector<int> fds_;
  std::mutex mutex_;
  std::condition_variable work_, changed_;
  // Rings as large as all blocks that may be under way: neither overflows.
  std::vector<Block> queued_ STRATA_GUARDED_BY(mutex_);
  std::vector<BlockResult> done_ STRATA_GUARDED_BY(mutex_);
  std::size_t queued_begin_ STRATA_GUARDED_BY(mutex_) = 0, queued_end_ STRATA_GUARDED_BY(mutex_) = 0;
  std::size_t done_begin_ STRATA_GUARDED_BY(mutex_) = 0, done_end_ STRATA_GUARDED_BY(mutex_) = 0;
  bool woken_ STRATA_GUARDED_BY(mutex_) = false;
  bool ending_ STRATA_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace

std::unique_ptr<BlockIo> make_threads_io(const BlockIoSetup& setup) { return std::make_unique<ThreadsIo>(setup); }

}  // namespace strata::offload
