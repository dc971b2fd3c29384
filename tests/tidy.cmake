# The style of the house, once, not per sanitizer.
find_package(Python3 COMPONENTS Interpreter REQUIRED)
if(NOT STRATA_SANITIZE)
  add_test(NAME tidy.rules COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tidy/tidy.py)
  add_test(NAME tidy.format COMMAND ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/tidy/tidy.py --format)
  add_test(NAME tidy.self_test COMMAND ${Python3_EXECUTABLE} -B -m unittest -v test_tidy
           WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/tidy)
  set_tests_properties(tidy.rules tidy.format tidy.self_test PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
endif()
