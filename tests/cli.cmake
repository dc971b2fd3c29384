# Commands of the `strata` program that plan and look; those that start ranks are in process.cmake.
strata_test(cli_test unit/cli/doctor_command_test.cpp unit/cli/plan_command_test.cpp support/process.cpp)
add_dependencies(cli_test strata_program)
