# The decoder of examples/llm; not built where the examples are not.
if(STRATA_EXAMPLES)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  strata_test(llm_test unit/llm/config_test.cpp unit/llm/golden_decoder_test.cpp unit/llm/golden_training_test.cpp
              unit/llm/loaded_model_test.cpp unit/llm/prediction_test.cpp unit/llm/recompute_test.cpp
              unit/llm/reference_decoder_test.cpp unit/llm/run_totals_test.cpp unit/llm/token_text_test.cpp
              support/golden.cpp)
  target_link_libraries(llm_test PRIVATE llm_model)
  target_compile_definitions(llm_test PRIVATE "HWY_DISABLED_TARGETS=(HWY_AVX3_DL|HWY_SSSE3)")  # as in the model

  strata_test(llm_program_test unit/llm/program_test.cpp support/process.cpp support/process_fork.cpp)
  add_dependencies(llm_program_test llm strata_program)
endif()
