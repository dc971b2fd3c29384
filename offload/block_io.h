// The raw seam to the kernel, below the queue: blocks are submitted, completions come back as the kernel gave them.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace strata::offload {

enum class IoAct : std::uint8_t { read, write };

// One read or write of a file. Which file: the index in BlockIoSetup::fds.
struct Block {
  IoAct act = IoAct::read;
  std::uint32_t file = 0;
  std::uint64_t offset = 0;
  std::byte* address = nullptr;
  std::uint32_t size_bytes = 0;
  std::uint32_t token = 0;
};

struct BlockResult {
  std::uint32_t token = 0;
  std::int64_t result = 0;  // bytes moved, fewer than asked for at times, or -errno
};

struct BlockIoSetup {
  std::vector<int> fds;                       // stay the caller's
  std::uint32_t depth = 0;                    // blocks under way at once, at most
  std::vector<std::span<std::byte>> buffers;  // worth registering with the kernel
};

// Interprets nothing: what is short, failed or out of order is the queue's business.
// Threading: made, used and destroyed by one thread; wake by any.
class BlockIo {
 public:
  // Returns when nothing is under way any more: no buffer is touched later. There is no taking a block back from a
  // disk that does not answer, so this may wait for one.
  virtual ~BlockIo() = default;

  // REQUIRES fewer than `depth` blocks under way. The block begins now or with the next reap.
  virtual void submit(const Block& block) = 0;

  // Waits until a block is done, somebody calls wake(), or the time is over; how many results there are (perhaps none).
  // Throws Error{io} when the backend itself fails.
  virtual std::size_t reap(std::span<BlockResult> results, std::chrono::milliseconds time) = 0;

  virtual void wake() = 0;

  virtual std::string name() const = 0;  // "io_uring", "threads"

  // What it had to do without.
  virtual std::vector<std::string> warnings() const { return {}; }
};

using BlockIoFactory = std::function<std::unique_ptr<BlockIo>(const BlockIoSetup&)>;

// Throws Error{unsupported} naming the reason and the remedy when the build or the system has no io_uring for us.
std::unique_ptr<BlockIo> make_uring_io(const BlockIoSetup& setup);

// pread and pwrite by a few threads.
std::unique_ptr<BlockIo> make_threads_io(const BlockIoSetup& setup);

}  // namespace strata::offload
