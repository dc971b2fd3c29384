add_executable(nvme_bench nvme_bench.cpp plain_disk_adam.cpp bench_rows.cpp)
target_include_directories(nvme_bench PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(nvme_bench PRIVATE strata strata_flags fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
set_target_properties(nvme_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
