add_executable(update_bench update_bench.cpp update_ruler.cpp bench_rows.cpp)
target_include_directories(update_bench PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(update_bench PRIVATE strata strata_flags fmt::fmt nlohmann_json::nlohmann_json PkgConfig::HWY
                                           Threads::Threads)
set_target_properties(update_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
