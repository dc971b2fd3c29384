// What the kernel lets this process do, asked by trying it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace strata::cli {

struct UringOffer {
  bool usable = false;
  std::string refusal;                     // why not, and what helps
  std::vector<std::string> setup_flags;    // of those the engine asks for
  std::vector<std::string> refused_flags;  // and those that were not given
  bool registers_files = false;
  bool registers_buffers = false;
  std::string buffers_refusal;  // of 8 MiB of buffers
};
UringOffer ask_uring();

struct PageOffer {
  std::uint64_t small_bytes = 0;
  std::uint64_t huge_bytes = 0;  // 0: none
  std::string huge_mode;         // "always", "madvise", "never"
  bool huge_given = false;       // a piece of memory that asked for them got them
};
PageOffer ask_pages();

std::optional<std::uint64_t> locked_memory_limit_bytes();  // nothing: no limit

// A directory for the disk tier, as the kernel sees it.
struct DirectoryOffer {
  std::string file_system;  // "ext4", or its number
  std::uint64_t free_bytes = 0;
  std::optional<std::size_t> memory_alignment_bytes;  // of direct I/O; nothing: the file system does not say
  std::optional<std::size_t> offset_alignment_bytes;
  bool unnamed_files = false;
};
DirectoryOffer ask_directory(const std::string& dir);

}  // namespace strata::cli
