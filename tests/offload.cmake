# Where bytes live and how they move.
strata_test(offload_test unit/offload/io_lane_test.cpp unit/offload/io_queue_test.cpp unit/offload/nvme_files_test.cpp
            unit/offload/nvme_tier_test.cpp unit/offload/sealed_store_test.cpp unit/offload/stripe_layout_test.cpp)
strata_test(disk_allocation_test unit/offload/disk_allocation_test.cpp support/allocation_count.cpp)
strata_test(tier_contract contract/tier_contract_test.cpp support/faulty_block_io.cpp)
strata_test(disk_fault_test fault/disk_seed_test.cpp fault/disk_system_test.cpp support/faulty_block_io.cpp
            support/process_fork.cpp support/refused_syscall.cpp)
