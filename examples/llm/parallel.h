// Rows shared out over the OpenMP team. The ranges depend on the count alone, never on the number of threads.
#pragma once

#include <omp.h>

#include <algorithm>
#include <cstddef>

namespace llm {

inline constexpr std::size_t rows_per_range = 64;

// Calls work(first, last) for ranges of `step` that cover [0, count); from several threads at once.
template <class Work>
void parallel_ranges(std::size_t count, std::size_t step, const Work& work) {
  const std::size_t range_count = (count + step - 1) / step;
  if (range_count <= 1 || omp_get_max_threads() == 1) {
    for (std::size_t first = 0; first < count; first += step) work(first, std::min(count, first + step));
    return;
  }
#pragma omp parallel for schedule(dynamic, 1)
  for (std::size_t range = 0; range < range_count; ++range) {
    work(range * step, std::min(count, (range + 1) * step));
  }
}

template <class Work>
void parallel_rows(std::size_t count, const Work& work) {
  parallel_ranges(count, rows_per_range, work);
}

// Of the calling thread within parallel_ranges: 0 to thread_count() - 1.
inline int thread_index() { return omp_get_thread_num(); }
inline int thread_count() { return omp_get_max_threads(); }

}  // namespace llm
