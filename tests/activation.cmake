# What a model stashes between its passes.
strata_test(activation_store_test unit/engine/activation_store_test.cpp)
