# Writes OUTPUT, the page of `graphpipe report` as C++: by npm and Node.js in FOLDER, from SOURCE.
# Where that fails and PAGE is not ON, OUTPUT holds the reason instead.

# A page that is not there, and why.
function(write_missing reason)
  if(PAGE STREQUAL "ON")
    message(FATAL_ERROR "the page of graphpipe report: ${reason}")
  endif()
  if(NOT PAGE STREQUAL "OFF")
    message(WARNING "graphpipe report will have no page: ${reason}")
  endif()
  file(WRITE ${OUTPUT} "#include \"report/page_bundle.h\"

namespace graphpipe {
std::string_view page_template() { return \"\"; }
std::string_view page_template_missing() {
  return \"this graphpipe was built without its page (${reason}); install Node.js 18 or later with \"
         \"npm, delete ${OUTPUT} and build again\";
}
}  // namespace graphpipe
")
endfunction()

if(PAGE STREQUAL "OFF")
  write_missing("GP_PAGE is OFF")
  return()
endif()
if(NOT NODE OR NOT NPM)
  write_missing("node or npm is not there")
  return()
endif()

file(COPY ${SOURCE}/ DESTINATION ${FOLDER} PATTERN node_modules EXCLUDE)
if(NOT EXISTS ${FOLDER}/node_modules/.package-lock.json OR
   ${FOLDER}/package-lock.json IS_NEWER_THAN ${FOLDER}/node_modules/.package-lock.json)
  execute_process(COMMAND ${NPM} ci --no-audit --no-fund --loglevel=error
                  WORKING_DIRECTORY ${FOLDER} RESULT_VARIABLE failed OUTPUT_VARIABLE log ERROR_VARIABLE log)
  if(failed)
    message(STATUS "${log}")
    write_missing("npm ci failed")
    return()
  endif()
endif()
execute_process(COMMAND ${NODE} build.mjs ${OUTPUT} WORKING_DIRECTORY ${FOLDER}
                RESULT_VARIABLE failed OUTPUT_VARIABLE log ERROR_VARIABLE log)
if(failed)
  message(STATUS "${log}")
  write_missing("node build.mjs failed")
endif()
