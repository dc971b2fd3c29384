strata_test(options_test unit/options/bytes_test.cpp unit/options/combinations_test.cpp unit/options/config_test.cpp unit/options/flags_test.cpp
            unit/options/spelling_test.cpp)
