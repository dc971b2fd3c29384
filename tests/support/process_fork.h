// A piece of a test in a process of its own, which ends with what it says.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include <strata/detail/unique_fd.h>

namespace strata::test {

class ForkedCall {
 public:
  // Runs `body` in a child and ends it without running anything else of the test. What it returns, or "Error: what()"
  // of its exception, is the result. REQUIRES: this process has one thread.
  explicit ForkedCall(const std::function<std::string()>& body);
  ForkedCall(ForkedCall&& other) noexcept;
  ForkedCall& operator=(ForkedCall&&) = delete;
  ~ForkedCall();  // kills it if it still runs

  pid_t pid() const { return pid_; }
  int output() const { return output_.get(); }  // readable when it has said its result, or ended
  void signal(int number) const;

  // Waits for the end of the child, and kills it at the deadline: then, or when it was killed, the result says so.
  std::string result(double deadline_s = 20);

 private:
  pid_t pid_ = -1;  // -1: reaped
  detail::UniqueFd output_;
};

}  // namespace strata::test
