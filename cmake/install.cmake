# What `cmake --install` puts where, so that find_package(strata) works in another project.
include(CMakePackageConfigHelpers)

set(strata_config_dir ${CMAKE_INSTALL_LIBDIR}/cmake/strata)

install(TARGETS strata EXPORT strataTargets)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/strata DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
install(EXPORT strataTargets NAMESPACE strata:: DESTINATION ${strata_config_dir})
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE ${PROJECT_SOURCE_DIR}/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})

configure_package_config_file(${CMAKE_CURRENT_LIST_DIR}/strataConfig.cmake.in ${PROJECT_BINARY_DIR}/strataConfig.cmake
                              INSTALL_DESTINATION ${strata_config_dir})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/strataConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/strataConfig.cmake ${PROJECT_BINARY_DIR}/strataConfigVersion.cmake
        DESTINATION ${strata_config_dir})

# The command-line program `strata`.
if(TARGET strata_program)
  install(TARGETS strata_program)
endif()
