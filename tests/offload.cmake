# Where bytes live and how they move.
strata_test(tier_contract contract/tier_contract_test.cpp support/faulty_block_io.cpp)
