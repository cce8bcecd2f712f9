# The commit and the libraries that `ltrain --version` and env.json name.
find_package(Git QUIET)
set(LIBTRAIN_COMMIT "unknown")
if(Git_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} describe --always --dirty=+ --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  if(NOT failed)
    set(LIBTRAIN_COMMIT ${described})
  endif()
  # A new commit configures again.
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse --git-path logs/HEAD
                  OUTPUT_VARIABLE head_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(EXISTS ${PROJECT_SOURCE_DIR}/${head_log})
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${head_log})
  endif()
endif()

set(LIBTRAIN_BUILT_WITH "cpu")
set(LIBTRAIN_ONEDNN_VERSION "")
if(LIBTRAIN_HAS_ONEDNN)
  set(LIBTRAIN_ONEDNN_VERSION "${dnnl_VERSION}")
  string(APPEND LIBTRAIN_BUILT_WITH ", oneDNN ${dnnl_VERSION}")
else()
  string(APPEND LIBTRAIN_BUILT_WITH ", no oneDNN (own loops)")
endif()
set(LIBTRAIN_MPI_VERSION "MPI ${MPI_CXX_VERSION}")
if(MPI_CXX_LIBRARY_VERSION_STRING MATCHES "^([^,\n]+)")  # "Open MPI v4.1.4, package: ..."
  set(LIBTRAIN_MPI_VERSION "${CMAKE_MATCH_1}")
endif()
string(APPEND LIBTRAIN_BUILT_WITH ", ${LIBTRAIN_MPI_VERSION}, HDF5 ${HDF5_VERSION}")
configure_file(${PROJECT_SOURCE_DIR}/libtrain/src/core/version.cpp.in ${PROJECT_BINARY_DIR}/generated/version.cpp @ONLY)
