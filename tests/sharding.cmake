strata_test(flat_layout_test unit/sharding/flat_layout_test.cpp)
strata_test(norm_tree_test unit/sharding/norm_tree_test.cpp)
strata_test(communicator_contract contract/communicator_test.cpp contract/rank_worlds.cpp support/process_fork.cpp)
