# The decoder of examples/llm; not built where the examples are not.
if(STRATA_EXAMPLES)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  add_executable(llm_bench llm_bench.cpp bench_rows.cpp)
  target_include_directories(llm_bench PRIVATE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(llm_bench PRIVATE llm_model strata strata_flags fmt::fmt nlohmann_json::nlohmann_json Threads::Threads)
  set_target_properties(llm_bench PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endif()
