// Counts what the whole program takes from the heap, on all threads, while it is told to. Link allocation_count.cpp: it
// replaces operator new.
#pragma once

#include <cstdint>

namespace strata::test {

void start_counting_allocations();          // from 0
std::uint64_t stop_counting_allocations();  // how many since the start

}  // namespace strata::test
