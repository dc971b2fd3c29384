# Ranks as processes: how they find each other, how they are started, and how they die.
strata_test(rendezvous_test unit/rendezvous/rank_environment_test.cpp unit/rendezvous/local_rendezvous_test.cpp
            support/process_fork.cpp TIMEOUT 60)
strata_test(launcher_test fault/launcher_test.cpp support/process.cpp TIMEOUT 60)
add_dependencies(launcher_test strata_program)

add_executable(rank_program fault/rank_program.cpp)
target_link_libraries(rank_program PRIVATE strata strata_flags)
set_target_properties(rank_program PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
strata_test(rank_fault_test fault/rank_fault_test.cpp support/process.cpp TIMEOUT 120)
target_compile_definitions(rank_fault_test PRIVATE STRATA_RANK_PROGRAM="$<TARGET_FILE:rank_program>")
add_dependencies(rank_fault_test strata_program rank_program)
