# What `cmake --install` and CPack put where. Components: programs (the two programs, their pages)
# and dev (libraries, headers, the CMake package, examples).
include(CMakePackageConfigHelpers)

install(TARGETS graphpipe RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
if(GP_RUNTIME)
  install(TARGETS graphpipe-worker RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT programs)
endif()
install(FILES README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT programs)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT programs
        PATTERN site EXCLUDE)
install(DIRECTORY examples/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT programs
        PATTERN cpp EXCLUDE)
install(PROGRAMS tools/fetch_data.sh python/graphpipe_export.py
        DESTINATION ${CMAKE_INSTALL_DATADIR}/graphpipe COMPONENT programs)

# The manual page and what shells complete, as the program itself prints them.
set(manual ${CMAKE_BINARY_DIR}/man/graphpipe.1)
set(completions ${CMAKE_BINARY_DIR}/completions)
add_custom_command(
  OUTPUT ${manual} ${completions}/graphpipe ${completions}/_graphpipe ${completions}/graphpipe.fish
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/man ${completions}
  COMMAND graphpipe help --man > ${manual}
  COMMAND graphpipe help --completion bash > ${completions}/graphpipe
  COMMAND graphpipe help --completion zsh > ${completions}/_graphpipe
  COMMAND graphpipe help --completion fish > ${completions}/graphpipe.fish
  DEPENDS graphpipe COMMENT "Writing the manual page and completions" VERBATIM)
add_custom_target(gp_pages ALL DEPENDS ${manual})
install(FILES ${manual} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT programs)
install(FILES ${completions}/graphpipe
        DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT programs)
# zsh looks into the first below /usr/local, and on Debian into the second below /usr.
foreach(folder site-functions vendor-completions)
  install(FILES ${completions}/_graphpipe DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/${folder}
          COMPONENT programs)
endforeach()
install(FILES ${completions}/graphpipe.fish
        DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT programs)

# The libraries, one a room, under two names.
set(core base graph cluster cost models plan schedule planners sim search report data job api)
list(TRANSFORM core PREPEND gp_)
add_library(gp_core INTERFACE)
target_link_libraries(gp_core INTERFACE ${core})
set_target_properties(gp_core PROPERTIES EXPORT_NAME graphpipe)
install(TARGETS gp_core gp_flags ${core} EXPORT graphpipe-core-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/graphpipe COMPONENT dev)
set(package ${CMAKE_INSTALL_LIBDIR}/cmake/graphpipe)
install(EXPORT graphpipe-core-targets NAMESPACE graphpipe:: DESTINATION ${package} COMPONENT dev)
if(GP_RUNTIME)
  add_library(gp_run INTERFACE)
  target_link_libraries(gp_run INTERFACE gp_runtime gp_core)
  set_target_properties(gp_run PROPERTIES EXPORT_NAME runtime)
  install(TARGETS gp_run gp_runtime EXPORT graphpipe-runtime-targets
          ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/graphpipe COMPONENT dev)
  install(EXPORT graphpipe-runtime-targets NAMESPACE graphpipe:: DESTINATION ${package}
          COMPONENT dev)
endif()
configure_package_config_file(cmake/graphpipe-config.cmake.in graphpipe-config.cmake
                              INSTALL_DESTINATION ${package})
# Before 1.0 a minor version may change the interface.
write_basic_package_version_file(graphpipe-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/graphpipe-config.cmake
              ${CMAKE_BINARY_DIR}/graphpipe-config-version.cmake
        DESTINATION ${package} COMPONENT dev)

configure_file(include/graphpipe/version.h.in include/graphpipe/version.h @ONLY)
install(CODE "set(GP_SOURCE \"${CMAKE_SOURCE_DIR}\")
set(GP_BINARY \"${CMAKE_BINARY_DIR}\")" COMPONENT dev)
install(SCRIPT cmake/install_headers.cmake COMPONENT dev)
install(DIRECTORY examples/cpp DESTINATION ${CMAKE_INSTALL_DOCDIR}/examples COMPONENT dev)

# Debian packages: `cpack -G DEB` in the build folder; tools/check_packages.sh tries them.
set(CPACK_PACKAGE_NAME graphpipe)
set(CPACK_PACKAGE_CONTACT "The graphpipe authors <graphpipe@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_COMPONENTS_ALL programs dev)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_NAME graphpipe)
set(CPACK_COMPONENT_PROGRAMS_DESCRIPTION "${PROJECT_DESCRIPTION}\n\
 Branches of a network that do not depend on each other run side by side, so the pipeline is\n\
 shorter, holds fewer micro-batches, and finishes sooner.")
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_SHLIBDEPS ON)
# The reference BLAS, which Debian takes otherwise, is many times slower.
set(CPACK_DEBIAN_PROGRAMS_PACKAGE_RECOMMENDS libopenblas0-pthread)
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libgraphpipe-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_DEV_DESCRIPTION "Libraries and headers of graphpipe, and examples.")
set(dev_depends "libfmt-dev, libonnx-dev, libprotobuf-dev")
if(GP_RUNTIME)
  string(APPEND dev_depends ", libtorch-dev, libgloo-dev")
endif()
set(CPACK_DEBIAN_DEV_PACKAGE_DEPENDS "${dev_depends}")
include(CPack)
