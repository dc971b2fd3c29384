// What a sandbox, a container or an older kernel refuses, refused here: from now on, for this process and its children.
#pragma once

#include <cstdint>

namespace strata::test {

// The system call fails with `cause`. Throws std::runtime_error when the kernel has no such filters.
void refuse_syscall(int number, int cause);

// The same only where one of `flags` is set in the argument of that index.
void refuse_syscall_with(int number, unsigned argument, std::uint32_t flags, int cause);

}  // namespace strata::test
