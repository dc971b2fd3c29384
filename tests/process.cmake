# Ranks as processes: how they find each other, how they are started, and how they die.
strata_test(rendezvous_test unit/rendezvous/rank_environment_test.cpp unit/rendezvous/local_rendezvous_test.cpp
            support/process_fork.cpp TIMEOUT 60)
strata_test(launcher_test fault/launcher_test.cpp support/process.cpp TIMEOUT 60)
add_dependencies(launcher_test strata_program)
