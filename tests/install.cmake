# A build tree is installed and used once, by the compiler that made it.
if(NOT STRATA_SANITIZE)
  add_test(NAME install.consumer COMMAND ${CMAKE_COMMAND} -D BUILD=${PROJECT_BINARY_DIR} -D SOURCE=${PROJECT_SOURCE_DIR}
           -D COMPILER=${CMAKE_CXX_COMPILER} -D GENERATOR=${CMAKE_GENERATOR}
           -P ${CMAKE_CURRENT_SOURCE_DIR}/install/install_test.cmake)
  set_tests_properties(install.consumer PROPERTIES TIMEOUT 300 LABELS slow)
endif()
