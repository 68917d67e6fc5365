include(GoogleTest)

# gp_tests(PROGRAM LABEL label [SHARDS n] [TIMEOUT seconds])
#
# Tells ctest of the tests of a GoogleTest program: an entry each, or with SHARDS that many
# entries, PROGRAM.1 and so on, each a process that runs its share of them. Shares are for
# programs that take longer to start than most of their tests to run: those that load libtorch,
# and all of them under a sanitizer. `PROGRAM --gtest_filter=Suite.Name` runs one test.
function(gp_tests program)
  cmake_parse_arguments(ARG "" "LABEL;SHARDS;TIMEOUT" "" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  if(GP_SANITIZE AND NOT ARG_SHARDS)
    set(ARG_SHARDS 4)
  endif()
  set(properties LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
  set(data "GP_SHARED_DATA=${CMAKE_SOURCE_DIR}/../shared/data")
  if(NOT ARG_SHARDS)
    # One variable: of a list the discovery keeps the first. These programs have one thread.
    gtest_discover_tests(${program} DISCOVERY_TIMEOUT 60
      PROPERTIES ${properties} ENVIRONMENT "${data}")
    return()
  endif()
  math(EXPR last "${ARG_SHARDS} - 1")
  foreach(shard RANGE ${last})
    math(EXPR number "${shard} + 1")
    add_test(NAME ${program}.${number} COMMAND ${program} --gtest_brief=1)
    set_tests_properties(${program}.${number} PROPERTIES ${properties}
      ENVIRONMENT "OMP_NUM_THREADS=1;${data};GTEST_TOTAL_SHARDS=${ARG_SHARDS};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()
