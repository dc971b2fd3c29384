// One file without a name in a directory of ours.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include <strata/detail/unique_fd.h>

namespace strata::offload {

// An open directory that is ours alone. Throws invalid_argument when it is none, a symbolic link, another user's, or
// writable by others, with the remedy.
detail::UniqueFd open_own_directory(const std::string& dir);

struct UnnamedFile {
  detail::UniqueFd fd;
  std::size_t alignment_bytes = 4096;
  bool is_direct = false;  // past the page cache
};

// Mode 0600, empty, open for reading and writing, never to be linked. Throws io naming the directory.
UnnamedFile open_unnamed_file(const detail::UniqueFd& directory, const std::string& dir);

// Reserves the blocks of all `size_bytes`. Throws out_of_budget or io naming directory, need and what is free.
void reserve_whole(const UnnamedFile& file, const std::string& dir, std::uint64_t size_bytes);

}  // namespace strata::offload
