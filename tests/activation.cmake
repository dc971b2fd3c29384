# What a model stashes between its passes.
strata_test(activation_store_test unit/engine/activation_store_test.cpp)
strata_test(activation_engine_test unit/engine/activation_engine_test.cpp support/allocation_count.cpp)
target_link_libraries(activation_engine_test PRIVATE toy_model)
