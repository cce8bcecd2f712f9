# Finds the commit and the library versions that `ltrain --version` and env.json report.
find_package(Git QUIET)
set(LIBTRAIN_COMMIT "unknown")
if(Git_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} describe --always --dirty=+ --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
  # A copy without a repository of its own may lie in another one.
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse --show-prefix
                  OUTPUT_VARIABLE place OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT failed AND "${place}" STREQUAL "")
    set(LIBTRAIN_COMMIT ${described})
  endif()
  # A new commit triggers a new configuration.
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${PROJECT_SOURCE_DIR} rev-parse --git-path logs/HEAD
                  OUTPUT_VARIABLE head_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  cmake_path(ABSOLUTE_PATH head_log BASE_DIRECTORY ${PROJECT_SOURCE_DIR} OUTPUT_VARIABLE head_log_path)
  if(head_log AND EXISTS ${head_log_path})  # without a repository git prints nothing
    set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${head_log_path})
  endif()
endif()

set(LIBTRAIN_BUILT_WITH "cpu")
set(LIBTRAIN_CUDA_VERSION "")
if(LIBTRAIN_CUDA)
  set(LIBTRAIN_CUDA_VERSION "${CUDAToolkit_VERSION}")
  string(APPEND LIBTRAIN_BUILT_WITH ", CUDA ${CUDAToolkit_VERSION} (sm_${CMAKE_CUDA_ARCHITECTURES}), NCCL ${LIBTRAIN_NCCL_VERSION}")
  if(LIBTRAIN_HAS_CUDNN)
    string(APPEND LIBTRAIN_BUILT_WITH ", cuDNN ${LIBTRAIN_CUDNN_VERSION}")
  else()
    string(APPEND LIBTRAIN_BUILT_WITH ", no cuDNN (own attention)")
  endif()
endif()
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
configure_file(${PROJECT_SOURCE_DIR}/libtrain/version.cpp.in ${PROJECT_BINARY_DIR}/generated/version.cpp @ONLY)
