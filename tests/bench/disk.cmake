add_executable(disk_bench disk_bench.cpp bench_rows.cpp)
target_include_directories(disk_bench PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(disk_bench PRIVATE strata strata_flags fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
set_target_properties(disk_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
