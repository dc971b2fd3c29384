add_library(toy_model STATIC support/toy_model.cpp)
target_include_directories(toy_model PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(toy_model PUBLIC strata strata_flags fmt::fmt)

strata_test(engine_parts_test unit/engine/lane_test.cpp unit/engine/placement_test.cpp unit/engine/plan_test.cpp unit/engine/residency_test.cpp)
foreach(name unit/engine/engine_test world/equivalence_test world/tier_equivalence_test
             world/engine_failure_test world/disk_failure_test world/allocation_test
             world/plain_run_test)
  cmake_path(GET name FILENAME program)
  strata_test(${program} ${name}.cpp TIMEOUT 300)
  target_link_libraries(${program} PRIVATE toy_model)
endforeach()
strata_test(beyond_memory_test world/beyond_memory_test.cpp support/process_fork.cpp TIMEOUT 300)
target_compile_definitions(beyond_memory_test PRIVATE STRATA_SCRATCH="${PROJECT_BINARY_DIR}/tests")
target_sources(allocation_test PRIVATE support/allocation_count.cpp)
