strata_test(flat_layout_test unit/sharding/flat_layout_test.cpp)
strata_test(norm_tree_test unit/sharding/norm_tree_test.cpp)
