#include "support/refused_syscall.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

namespace strata::test {
namespace {

sock_filter step(unsigned code, std::uint32_t value, unsigned if_true = 0, unsigned if_false = 0) {
  return {static_cast<std::uint16_t>(code), static_cast<std::uint8_t>(if_true), static_cast<std::uint8_t>(if_false),
          value};
}

void install(std::vector<sock_filter> steps) {
  const sock_fprog program = {static_cast<unsigned short>(steps.size()), steps.data()};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
    throw std::runtime_error("no filter of system calls can be installed");
}

constexpr unsigned load = BPF_LD | BPF_W | BPF_ABS, is_equal = BPF_JMP | BPF_JEQ | BPF_K,
                   has_any = BPF_JMP | BPF_JSET | BPF_K, answer = BPF_RET | BPF_K;

}  // namespace

void refuse_syscall(int number, int cause) {
  install({step(load, offsetof(seccomp_data, nr)), step(is_equal, static_cast<std::uint32_t>(number), 0, 1),
           step(answer, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(cause)), step(answer, SECCOMP_RET_ALLOW)});
}

void refuse_syscall_with(int number, unsigned argument, std::uint32_t flags, int cause) {
  const auto low_half = static_cast<std::uint32_t>(offsetof(seccomp_data, args) + 8 * argument);  // little-endian
  install({step(load, offsetof(seccomp_data, nr)), step(is_equal, static_cast<std::uint32_t>(number), 0, 3),
           step(load, low_half), step(has_any, flags, 0, 1),
           step(answer, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(cause)), step(answer, SECCOMP_RET_ALLOW)});
}

}  // namespace strata::test
