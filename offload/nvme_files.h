// Files without a name, reserved whole: the disk side's only touch of a file system.
//
// Nothing is left in the directory when the process ends, however it ends. Where the file system has no unnamed files,
// a file is made under a random name that is taken away at once; names that a job left by dying in between are swept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <strata/detail/unique_fd.h>
#include "offload/stripe_layout.h"

namespace strata::offload {

class NvmeFiles {
 public:
  // One file of equal size in each directory, `capacity_bytes` in all, every byte of it reserved. `stripe_bytes` is a
  // multiple of 4 KiB. Throws invalid_argument for a directory that is none, is not ours, or that others may write to;
  // out_of_budget when the space is not there, naming directory, need and what is free; io when the system refuses.
  NvmeFiles(const std::vector<std::string>& dirs, std::uint64_t capacity_bytes, std::uint64_t stripe_bytes);

  std::vector<int> fds() const;
  const std::vector<std::string>& names() const { return names_; }  // for messages
  const StripeLayout& layout() const { return layout_; }
  std::size_t alignment_bytes() const { return alignment_bytes_; }
  bool is_direct() const { return is_direct_; }  // past the page cache, all of them
  const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  std::vector<detail::UniqueFd> files_;
  std::vector<std::string> names_;
  std::vector<std::string> warnings_;
  StripeLayout layout_;
  std::size_t alignment_bytes_ = 4096;
  bool is_direct_ = true;
};

// What NvmeFiles could reserve in all of them now: equal shares, several on one file system counted once.
std::uint64_t nvme_free_bytes(const std::vector<std::string>& dirs);

// What addresses, offsets and sizes are multiples of.
std::size_t nvme_alignment_bytes(const std::vector<std::string>& dirs);

}  // namespace strata::offload
