# Defines what `cmake --install` copies, in two components. `program` is ltrain (launch/CMakeLists.txt). `development`
# is the library with its public headers, its package for find_package(libtrain) and its file for pkg-config. A shared
# library is in both components, so that each works alone.
include(CMakePackageConfigHelpers)
set(LIBTRAIN_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/libtrain)

get_target_property(library libtrain::libtrain ALIASED_TARGET)
install(TARGETS ${library} EXPORT libtrain-targets
        ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development
        INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(BUILD_SHARED_LIBS)
  install(TARGETS ${library} LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT program NAMELINK_SKIP)
endif()
install(DIRECTORY ${PROJECT_SOURCE_DIR}/libtrain/include/libtrain DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT development
        FILES_MATCHING PATTERN "*.h")
install(EXPORT libtrain-targets NAMESPACE libtrain:: DESTINATION ${LIBTRAIN_PACKAGE_DIR} COMPONENT development)

# For CMake. The package looks for the libraries again, first where they were in this build.
set(LIBTRAIN_PACKAGE_CUDA_HINTS "")
if(LIBTRAIN_CUDA_ROOT)
  set(LIBTRAIN_PACKAGE_CUDA_HINTS "${LIBTRAIN_CUDA_ROOT}/cu13")
elseif(LIBTRAIN_CUDA)
  set(LIBTRAIN_PACKAGE_CUDA_HINTS "${CUDAToolkit_LIBRARY_ROOT}")
endif()
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/libtrain-config.cmake.in
                              ${PROJECT_BINARY_DIR}/package/libtrain-config.cmake INSTALL_DESTINATION ${LIBTRAIN_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/libtrain-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/libtrain-config.cmake ${PROJECT_BINARY_DIR}/package/libtrain-config-version.cmake
        DESTINATION ${LIBTRAIN_PACKAGE_DIR} COMPONENT development)

# For pkg-config. Libs names all that a static library needs.
set(libraries ${MPI_CXX_LIBRARIES})
list(FILTER libraries EXCLUDE REGEX "mpi_cxx")  # only the C interface is used
list(PREPEND libraries ${LIBTRAIN_PKGCONFIG_LIBRARIES})
if(NOT LIBTRAIN_FMT_HEADER_ONLY)
  list(APPEND libraries -L$<TARGET_FILE_DIR:fmt::fmt> -lfmt)
endif()
if(LIBTRAIN_HAS_ONEDNN)
  list(APPEND libraries -L$<TARGET_FILE_DIR:DNNL::dnnl> -ldnnl)
endif()
if(LIBTRAIN_CUDA)
  list(APPEND libraries $<TARGET_FILE:CUDA::cudart> $<TARGET_FILE:CUDA::cublasLt>)
endif()
list(APPEND libraries -pthread ${CMAKE_DL_LIBS})
list(TRANSFORM libraries REPLACE "^([A-Za-z0-9_]+)$" "-l\\1")
list(REMOVE_DUPLICATES libraries)
if(LIBTRAIN_CUDA_RPATH)  # as CMake's users get it with the targets
  list(APPEND libraries -Wl,--disable-new-dtags)
  foreach(folder ${LIBTRAIN_CUDA_RPATH})
    list(APPEND libraries -Wl,-rpath,${folder})
  endforeach()
endif()
if(BUILD_SHARED_LIBS)
  set(libraries "")
endif()
list(TRANSFORM libraries REPLACE " " "\\\\ ")
list(JOIN libraries " " LIBTRAIN_PKGCONFIG_LIBS)
cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig
           OUTPUT_VARIABLE LIBTRAIN_PKGCONFIG_PREFIX)
foreach(folder LIBDIR INCLUDEDIR)  # absolute, or below the prefix
  cmake_path(ABSOLUTE_PATH CMAKE_INSTALL_${folder} BASE_DIRECTORY "\${prefix}"
             OUTPUT_VARIABLE LIBTRAIN_PKGCONFIG_${folder})
  string(REPLACE " " "\\ " LIBTRAIN_PKGCONFIG_${folder} "${LIBTRAIN_PKGCONFIG_${folder}}")
endforeach()
configure_file(${PROJECT_SOURCE_DIR}/cmake/libtrain.pc.in ${PROJECT_BINARY_DIR}/package/libtrain.pc.in @ONLY)
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/package/libtrain.pc INPUT ${PROJECT_BINARY_DIR}/package/libtrain.pc.in)
install(FILES ${PROJECT_BINARY_DIR}/package/libtrain.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)
