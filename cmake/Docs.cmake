# The target `docs` builds the reference of the public headers with Doxygen, in build/cpu/docs/html. A warning is an
# error.
find_program(LIBTRAIN_DOXYGEN doxygen)
set(header_root ${PROJECT_SOURCE_DIR}/libtrain/include)
configure_file(${PROJECT_SOURCE_DIR}/cmake/Doxyfile.in ${PROJECT_BINARY_DIR}/docs/Doxyfile @ONLY)
if(LIBTRAIN_DOXYGEN)
  add_custom_target(docs COMMAND ${LIBTRAIN_DOXYGEN} ${PROJECT_BINARY_DIR}/docs/Doxyfile
                    COMMENT "Reference of the public headers: ${PROJECT_BINARY_DIR}/docs/html/index.html" VERBATIM)
else()
  add_custom_target(docs COMMAND ${CMAKE_COMMAND} -E echo "doxygen was not found: apt-get install doxygen, then configure again"
                         COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
endif()
