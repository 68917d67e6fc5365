# gp_page(TARGET)
#
# Adds the page of `graphpipe report` to the library: src/report/page, bundled with its libraries
# from npm. Where Node.js or the registry cannot be had, the rest builds and `report` says why it
# has no page; GP_PAGE=ON makes that an error, GP_PAGE=OFF leaves the page out.
set(GP_PAGE AUTO CACHE STRING "bundle the page of graphpipe report: AUTO, ON or OFF")
find_program(GP_NODE node)
find_program(GP_NPM npm)

function(gp_page target)
  set(source ${CMAKE_CURRENT_SOURCE_DIR}/report/page)
  set(output ${CMAKE_CURRENT_BINARY_DIR}/page_bundle.cc)
  file(GLOB parts CONFIGURE_DEPENDS ${source}/*.js ${source}/*.mjs ${source}/*.css ${source}/*.html
       ${source}/*.json)
  add_custom_command(
    OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DSOURCE=${source} -DFOLDER=${CMAKE_CURRENT_BINARY_DIR}/page
            -DOUTPUT=${output} -DNODE=${GP_NODE} -DNPM=${GP_NPM} -DPAGE=${GP_PAGE}
            -P ${CMAKE_SOURCE_DIR}/cmake/bundle_page.cmake
    DEPENDS ${parts} ${CMAKE_SOURCE_DIR}/cmake/bundle_page.cmake
    COMMENT "Bundling the page of graphpipe report" VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
