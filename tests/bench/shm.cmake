add_executable(shm_bench shm_bench.cpp bench_rows.cpp ../support/process_fork.cpp)
target_include_directories(shm_bench PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(shm_bench PRIVATE strata strata_flags fmt::fmt nlohmann_json::nlohmann_json PkgConfig::HWY
                                        Threads::Threads)
set_target_properties(shm_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
