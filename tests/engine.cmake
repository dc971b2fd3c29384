add_library(toy_model STATIC support/toy_model.cpp)
target_include_directories(toy_model PUBLIC ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tests)
target_link_libraries(toy_model PUBLIC strata strata_flags fmt::fmt)

strata_test(equivalence_test world/equivalence_test.cpp TIMEOUT 300)
target_link_libraries(equivalence_test PRIVATE toy_model)

strata_test(engine_test unit/engine/engine_test.cpp)
target_link_libraries(engine_test PRIVATE toy_model)
