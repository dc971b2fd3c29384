// Threads that share one loop and are parked in between: the update's own, apart from the model's.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

#include <strata/detail/thread_annotations.h>

namespace strata::engine {

// Threading: run() from one thread, which is a member of the team.
class UpdateTeam {
 public:
  explicit UpdateTeam(std::uint32_t threads);
  ~UpdateTeam();
  UpdateTeam(const UpdateTeam&) = delete;
  UpdateTeam& operator=(const UpdateTeam&) = delete;

  // Calls work(index) for all indices below count, each once, and returns when all are done. `work` must not throw.
  template <typename Work>
  void run(std::size_t count, const Work& work) {
    static_assert(std::is_nothrow_invocable_v<Work, std::size_t>, "a member of the team cannot report");
    run_erased(
        count, [](const void* context, std::size_t index) noexcept { (*static_cast<const Work*>(context))(index); },
        &work);
  }

 private:
  using Function = void (*)(const void*, std::size_t) noexcept;

  void run_erased(std::size_t count, Function function, const void* context);
  void take_indices();
  void member();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::uint64_t round_ STRATA_GUARDED_BY(mutex_) = 0;
  std::size_t busy_count_ STRATA_GUARDED_BY(mutex_) = 0;
  bool ending_ STRATA_GUARDED_BY(mutex_) = false;
  Function function_ = nullptr;  // these three change only while all others are parked
  const void* context_ = nullptr;
  std::size_t count_ = 0;
  std::atomic<std::size_t> next_{0};
  std::vector<std::thread> others_;
};

}  // namespace strata::engine
