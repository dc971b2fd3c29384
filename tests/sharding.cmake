# Layouts, the norm, the reduction and communicators.
strata_test(sharding_test unit/sharding/exchange_arena_test.cpp unit/sharding/flat_layout_test.cpp unit/sharding/norm_tree_test.cpp
            unit/sharding/reduce_kernel_test.cpp unit/sharding/shm_channel_test.cpp)
strata_test(no_allocation_test unit/sharding/no_allocation_test.cpp support/allocation_count.cpp)
strata_test(communicator_contract contract/communicator_test.cpp contract/rank_worlds.cpp support/process_fork.cpp)
strata_test(communicator_fault_test contract/communicator_fault_test.cpp contract/rank_worlds.cpp
            support/process_fork.cpp)
