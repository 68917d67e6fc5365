# gp_module(NAME DEPS room... LINK library... [SHARDS n])
#
# Makes library gp_NAME of the *.cc below src/NAME and test program NAME_test of
# the *_test.cc, with the label NAME, in SHARDS as gp_tests has it. DEPS are the rooms
# that NAME may include; tools/check_layers.py holds the includes against these calls.
#
# Presets full, asan and tsan compile a room's files in dozens (CMAKE_UNITY_BUILD), since most of
# the time goes into headers: so no two files of a room give one local name two meanings.
function(gp_module name)
  cmake_parse_arguments(ARG "" "SHARDS" "DEPS;LINK" ${ARGN})
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${name}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_test\\.cc$")

  list(TRANSFORM ARG_DEPS PREPEND gp_)
  if(sources)
    add_library(gp_${name} STATIC ${sources})
    target_link_libraries(gp_${name} PUBLIC gp_flags ${ARG_DEPS} ${ARG_LINK})
  else()
    add_library(gp_${name} INTERFACE)
    target_link_libraries(gp_${name} INTERFACE gp_flags ${ARG_DEPS} ${ARG_LINK})
  endif()

  if(GP_TESTS AND tests)
    add_executable(${name}_test ${tests})
    target_link_libraries(${name}_test PRIVATE gp_${name} GTest::gtest GTest::gmock GTest::gtest_main)
    if(ARG_SHARDS)
      gp_tests(${name}_test LABEL ${name} SHARDS ${ARG_SHARDS})
    else()
      gp_tests(${name}_test LABEL ${name})
    endif()
  endif()
endfunction()
