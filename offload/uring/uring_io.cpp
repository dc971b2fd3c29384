// io_uring by one thread. What newer kernels do better is asked for first and done without where it is refused: task
// work deferred to our own waits, registered files (no reference count per block), registered buffers (pages pinned
// once).
#include <liburing.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include <fmt/format.h>

#include <strata/bytes.h>
#include <strata/detail/assert.h>
#include <strata/detail/unique_fd.h>
#include <strata/error.h>
#include "offload/block_io.h"

namespace strata::offload {
namespace {

constexpr std::uint64_t wake_token = ~std::uint64_t{0};
constexpr std::uint64_t cancel_token = wake_token - 1;
constexpr std::size_t registered_piece_bytes = std::size_t{1} << 30;  // the kernel's limit for one buffer
constexpr int refused_enter_count_max = 5000;                         // in a row
constexpr std::chrono::milliseconds refused_pause{1};

// From the most wanted set to none at all; older kernels know fewer.
constexpr std::array<unsigned, 4> setup_flags = {
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_COOP_TASKRUN,
    IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN, IORING_SETUP_COOP_TASKRUN, 0};

std::string said(int cause) { return fmt::format("{} (errno {})", std::strerror(cause), cause); }

std::string remedy_for(int cause) {
  if (cause == EPERM || cause == EACCES)
    return "; containers often forbid it, see kernel.io_uring_disabled and seccomp";
  if (cause == ENOSYS) return "; the kernel has none, or a sandbox hides it";
  if (cause == ENOMEM) return "; raise the limit of locked memory (ulimit -l)";
  return "";
}

// A ring with its owner.
class Ring {
 public:
  explicit Ring(unsigned entry_count) {
    int failed = -EINVAL;
    for (const unsigned flags : setup_flags) {
      failed = ::io_uring_queue_init(entry_count, &ring_, flags);
      if (failed != -EINVAL) break;
    }
    if (failed != 0)
      throw Error(ErrorCode::unsupported,
                  fmt::format("the system refuses io_uring: {}{}", said(-failed), remedy_for(-failed)));
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() { ::io_uring_queue_exit(&ring_); }

  io_uring* get() { return &ring_; }

 private:
  io_uring ring_ = {};
};

class UringIo final : public BlockIo {
 public:
  explicit UringIo(const BlockIoSetup& setup)
      : fds_(setup.fds),
        depth_(setup.depth),
        wake_fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
        ring_(setup.depth + 2) {
    if (!wake_fd_) throw Error(ErrorCode::io, fmt::format("no eventfd for the disk's thread: {}", said(errno)));
    check_operations();
    has_files_ = ::io_uring_register_files(ring_.get(), fds_.data(), static_cast<unsigned>(fds_.size())) == 0;
    register_buffers(setup.buffers);
    listen_for_wake();
  }

  ~UringIo() override {
    await_all();
    // The kernel takes a ring apart at its leisure; files and pages are to be free on return.
    if (has_files_) ::io_uring_unregister_files(ring_.get());
    if (!registered_.empty()) ::io_uring_unregister_buffers(ring_.get());
  }

  void submit(const Block& block) override {
    STRATA_ASSERT(under_way_count_ < depth_);
    ++under_way_count_;
    io_uring_sqe* sqe = next_entry();
    const int fd = has_files_ ? static_cast<int>(block.file) : fds_[block.file];
    const int buffer = registered_index(block);
    if (block.act == IoAct::read && buffer >= 0) {
      ::io_uring_prep_read_fixed(sqe, fd, block.address, block.size_bytes, block.offset, buffer);
    } else if (block.act == IoAct::read) {
      ::io_uring_prep_read(sqe, fd, block.address, block.size_bytes, block.offset);
    } else if (buffer >= 0) {
      ::io_uring_prep_write_fixed(sqe, fd, block.address, block.size_bytes, block.offset, buffer);
    } else {
      ::io_uring_prep_write(sqe, fd, block.address, block.size_bytes, block.offset);
    }
    if (has_files_) ::io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
    ::io_uring_sqe_set_data64(sqe, block.token);
  }

  std::size_t reap(std::span<BlockResult> results, std::chrono::milliseconds time) override {
    enter(time);
    std::size_t count = 0;
    io_uring_cqe* cqe = nullptr;
    while (count < results.size() && ::io_uring_peek_cqe(ring_.get(), &cqe) == 0) {
      const std::uint64_t token = cqe->user_data;
      const std::int64_t result = cqe->res;
      ::io_uring_cqe_seen(ring_.get(), cqe);
      if (token == wake_token) {
        hear_wake();
      } else if (token != cancel_token) {
        --under_way_count_;
        results[count++] = {static_cast<std::uint32_t>(token), result};
      }
    }
    return count;
  }

  void wake() override {
    const std::uint64_t one = 1;
    // Fails only when 2^64 calls are unheard.
    [[maybe_unused]] const ssize_t written = ::write(wake_fd_.get(), &one, sizeof one);
  }

  std::string name() const override { return "io_uring"; }
  std::vector<std::string> warnings() const override { return warnings_; }

 private:
  void await_all() {
    if (under_way_count_ == 0) return;
    // Takes back what waits for a worker; what the disk has is waited for.
    io_uring_sqe* sqe = next_entry();
    ::io_uring_prep_cancel(sqe, nullptr, IORING_ASYNC_CANCEL_ANY);
    ::io_uring_sqe_set_data64(sqe, cancel_token);
    std::array<BlockResult, 16> results;
    while (under_way_count_ > 0) {
      try {
        reap(results, std::chrono::seconds(1));
      } catch (const Error&) {
        std::this_thread::sleep_for(refused_pause);  // no way but to wait: the kernel has buffers about to be freed
      }
    }
  }

  void check_operations() {
    io_uring_probe* probe = ::io_uring_get_probe_ring(ring_.get());
    const bool has_all = probe != nullptr && ::io_uring_opcode_supported(probe, IORING_OP_READ) &&
                         ::io_uring_opcode_supported(probe, IORING_OP_WRITE) &&
                         ::io_uring_opcode_supported(probe, IORING_OP_POLL_ADD);
    if (probe != nullptr) ::io_uring_free_probe(probe);
    if (!has_all)
      throw Error(ErrorCode::unsupported, "this kernel's io_uring cannot read and write yet: it takes Linux 5.6");
  }

  void register_buffers(const std::vector<std::span<std::byte>>& buffers) {
    std::uint64_t total_bytes = 0;
    for (std::span<std::byte> rest : buffers) {
      total_bytes += rest.size();
      while (!rest.empty()) {
        const std::size_t size_bytes = std::min(rest.size(), registered_piece_bytes);
        registered_.push_back({rest.data(), size_bytes});
        rest = rest.subspan(size_bytes);
      }
    }
    if (registered_.empty()) return;
    const int failed =
        ::io_uring_register_buffers(ring_.get(), registered_.data(), static_cast<unsigned>(registered_.size()));
    if (failed == 0) return;
    registered_.clear();
    warnings_.push_back(
        fmt::format("the system does not pin {} of I/O buffers: {}{}; going on unpinned, which costs "
                    "processor time",
                    format_bytes(total_bytes), said(-failed), remedy_for(-failed)));
  }

  int registered_index(const Block& block) const {
    for (std::size_t i = 0; i < registered_.size(); ++i) {
      const auto* begin = static_cast<const std::byte*>(registered_[i].iov_base);
      if (block.address >= begin && block.address + block.size_bytes <= begin + registered_[i].iov_len)
        return static_cast<int>(i);
    }
    return -1;
  }

  // One is free: the ring has room for all blocks, the wake-up and a cancellation.
  io_uring_sqe* next_entry() {
    io_uring_sqe* sqe = ::io_uring_get_sqe(ring_.get());
    STRATA_ASSERT(sqe != nullptr);
    return sqe;
  }

  void listen_for_wake() {
    io_uring_sqe* sqe = next_entry();
    ::io_uring_prep_poll_add(sqe, wake_fd_.get(), POLLIN);
    ::io_uring_sqe_set_data64(sqe, wake_token);
  }

  void hear_wake() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wake_fd_.get(), &count, sizeof count);
    listen_for_wake();
  }

  // Submits, and waits for one completion or the time. What the kernel does not take now it is offered next time.
  void enter(std::chrono::milliseconds time) {
    __kernel_timespec wait_time = {time.count() / 1000, time.count() % 1000 * 1'000'000};
    io_uring_cqe* cqe = nullptr;
    const int result = ::io_uring_submit_and_wait_timeout(ring_.get(), &cqe, 1, &wait_time, nullptr);
    if (result >= 0 || result == -ETIME || result == -EINTR) {
      refused_enter_count_ = 0;
      return;
    }
    const bool is_short_of_room = result == -EAGAIN || result == -EBUSY || result == -ENOMEM;
    if (is_short_of_room && ++refused_enter_count_ <= refused_enter_count_max)
      return std::this_thread::sleep_for(refused_pause);
    throw Error(ErrorCode::io, fmt::format("io_uring takes no more blocks: {}", said(-result)));
  }

  std::vector<int> fds_;
  const std::uint32_t depth_;
  std::vector<iovec> registered_;
  std::vector<std::string> warnings_;
  detail::UniqueFd wake_fd_;
  Ring ring_;
  bool has_files_ = false;
  std::uint32_t under_way_count_ = 0;
  int refused_enter_count_ = 0;
};

}  // namespace

std::unique_ptr<BlockIo> make_uring_io(const BlockIoSetup& setup) { return std::make_unique<UringIo>(setup); }

}  // namespace strata::offload
