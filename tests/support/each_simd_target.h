// Runs a check with every SIMD target that this build has code for and this machine can run.
#pragma once

#include <cstdint>

#include <gtest/gtest.h>
#include <hwy/highway.h>

namespace strata::test {

inline void choose_simd_targets(std::int64_t targets) {  // 0: what the machine has
  hwy::SetSupportedTargetsForTest(targets);
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
}

template <class Check>
void for_each_simd_target(const Check& check) {
  int target_count = 0;
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    choose_simd_targets(target);
    SCOPED_TRACE(hwy::TargetName(target));
    check();
    ++target_count;
  }
  choose_simd_targets(0);
  EXPECT_GE(target_count, 2) << "one target alone shows nothing";
}

}  // namespace strata::test
