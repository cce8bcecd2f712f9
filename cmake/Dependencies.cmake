# Finds all third-party packages. If one is missing or too old, configuration stops with the name of the package to
# install. launch/deps.sh installs all of them.
function(lt_missing what package)
  message(FATAL_ERROR "${what} was not found. Install it with `bash launch/deps.sh`, or: apt-get install ${package}")
endfunction()

set(OpenMP_RUNTIME_MSG "")
find_package(OpenMP COMPONENTS CXX)
if(NOT OpenMP_CXX_FOUND)
  lt_missing("OpenMP" "g++ (with clang: libomp-dev)")
endif()
find_package(Threads REQUIRED)

find_package(fmt QUIET)
if(NOT fmt_FOUND)
  lt_missing("fmt" "libfmt-dev")
endif()
add_library(lt_fmt INTERFACE)
target_link_libraries(lt_fmt INTERFACE $<IF:$<BOOL:${LIBTRAIN_FMT_HEADER_ONLY}>,fmt::fmt-header-only,fmt::fmt>)

find_package(nlohmann_json QUIET)
if(NOT nlohmann_json_FOUND)
  lt_missing("nlohmann-json" "nlohmann-json3-dev")
endif()
add_library(lt_json INTERFACE)
target_link_libraries(lt_json INTERFACE nlohmann_json::nlohmann_json)
# Conversions to text or numbers must be explicit, so that no overload is chosen by accident.
target_compile_definitions(lt_json INTERFACE JSON_USE_IMPLICIT_CONVERSIONS=0)

find_package(CLI11 QUIET)
if(NOT CLI11_FOUND)
  lt_missing("CLI11" "libcli11-dev")
endif()

find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h)
if(NOT TOMLPLUSPLUS_INCLUDE_DIR)
  lt_missing("toml++" "libtomlplusplus-dev")
endif()

# lt_packaged_library(TARGET PACKAGE PATH LIBRARY...): the installed package links the library at PATH, too. It looks for
# it again by these names, first where it was here, and calls it lt_TARGET.
set(LIBTRAIN_PACKAGE_LIBRARIES "")  # a line for each in libtrain-config.cmake
set(LIBTRAIN_PACKAGE_TARGETS "")    # lt_TARGET of those that have another target in this build
set(LIBTRAIN_PKGCONFIG_LIBRARIES "")
macro(lt_packaged_library target package path)
  get_filename_component(folder "${path}" DIRECTORY)
  string(JOIN " " names ${ARGN})
  string(APPEND LIBTRAIN_PACKAGE_LIBRARIES "lt_linked_library(${target} \"${package}\" \"${folder}\" ${names})\n")
  list(APPEND LIBTRAIN_PKGCONFIG_LIBRARIES "${path}")
endmacro()

# lt_linked_library(...): lt_packaged_library() of a library without CMake files, and the target here.
macro(lt_linked_library target package path)
  add_library(lt_${target} INTERFACE IMPORTED)
  target_link_libraries(lt_${target} INTERFACE "${path}")
  lt_packaged_library(${target} "${package}" "${path}" ${ARGN})
endmacro()

# lt_library(TARGET NAME HEADER PACKAGE LIBRARY...): lt_linked_library() of a C library without CMake files. Static
# libraries are preferred, so that programs run on hosts without them.
macro(lt_library target name header package)
  string(TOUPPER ${target} id)
  find_path(${id}_INCLUDE_DIR ${header})
  find_library(${id}_LIBRARY NAMES ${ARGN})
  if(NOT ${id}_INCLUDE_DIR OR NOT ${id}_LIBRARY)
    lt_missing("${name}" "${package}")
  endif()
  lt_linked_library(${target} ${package} "${${id}_LIBRARY}" ${ARGN})
endmacro()
# For tokenizers.
lt_library(pcre2 "PCRE2 (8 bit)" pcre2.h libpcre2-dev libpcre2-8.a pcre2-8)
lt_library(utf8proc "utf8proc" utf8proc.h libutf8proc-dev libutf8proc.a utf8proc)
# For compressed text.
lt_library(zlib "zlib" zlib.h zlib1g-dev libz.a z)
lt_library(zstd "zstd" zstd.h libzstd-dev libzstd.a zstd)

set(MPI_DETERMINE_LIBRARY_VERSION ON)  # for version.h
find_package(MPI QUIET COMPONENTS CXX)
if(NOT MPI_CXX_FOUND)
  lt_missing("MPI" "libopenmpi-dev openmpi-bin")
endif()

set(HDF5_PREFER_PARALLEL OFF)
find_package(HDF5 QUIET COMPONENTS C)
if(NOT HDF5_FOUND)
  lt_missing("HDF5 (serial, C)" "libhdf5-dev")
endif()

# A project that uses the installed package may lack the language C, which FindHDF5 needs, or may have a compiler with
# another runtime of OpenMP. So the package names the files. A shared HDF5 brings its own libraries; a static one needs all
# that FindHDF5 lists.
foreach(file IN LISTS OpenMP_CXX_LIBRARIES)
  get_filename_component(name "${file}" NAME)
  lt_packaged_library(openmp g++ "${file}" ${name} ${name}.1)
  list(APPEND LIBTRAIN_PACKAGE_TARGETS lt_openmp)
  break()  # then come threads
endforeach()
set(target hdf5)
set(other_names hdf5 hdf5_serial)
foreach(file IN LISTS HDF5_C_LIBRARIES)
  if(TARGET "${file}")
    get_target_property(file "${file}" LOCATION)
  endif()
  get_filename_component(name "${file}" NAME)
  lt_packaged_library(${target} libhdf5-dev "${file}" ${name} ${other_names})
  list(APPEND LIBTRAIN_PACKAGE_TARGETS lt_${target})
  if("${target} ${name}" MATCHES "^hdf5 .*[.]so$")
    break()
  endif()
  set(target ${target}_)
  set(other_names "")
endforeach()

string(TOUPPER "${LIBTRAIN_ONEDNN}" onednn)
if(NOT onednn STREQUAL "AUTO" AND NOT onednn MATCHES "^(ON|OFF|TRUE|FALSE|YES|NO|1|0)$")
  message(FATAL_ERROR "LIBTRAIN_ONEDNN: expected AUTO, ON or OFF, got \"${LIBTRAIN_ONEDNN}\"")
endif()
set(LIBTRAIN_HAS_ONEDNN OFF)
if(onednn STREQUAL "AUTO" OR onednn)
  find_package(dnnl QUIET CONFIG)
  if(dnnl_FOUND)
    set(LIBTRAIN_HAS_ONEDNN ON)
  elseif(NOT onednn STREQUAL "AUTO")
    lt_missing("oneDNN" "libdnnl-dev ocl-icd-opencl-dev")
  else()
    message(STATUS "oneDNN was not found: CPU matmuls use this library's own loops, several times slower (apt-get install libdnnl-dev ocl-icd-opencl-dev)")
  endif()
endif()

if(LIBTRAIN_TESTS)
  find_package(Catch2 QUIET)
  if(NOT Catch2_FOUND)
    lt_missing("Catch2" "catch2")
  endif()
endif()

# lt_header_version(VARIABLE HEADER NAME...): the version that a header defines as numbers of these names; empty if there
# is no such header.
function(lt_header_version variable header)
  set(version "")
  if(EXISTS "${header}")
    file(STRINGS "${header}" lines REGEX "^#define +[A-Z_]+ +[0-9]+$")
    foreach(name ${ARGN})
      if(lines MATCHES "#define +${name} +([0-9]+)")
        list(APPEND version ${CMAKE_MATCH_1})
      endif()
    endforeach()
    list(JOIN version "." version)
  endif()
  set(${variable} "${version}" PARENT_SCOPE)
endfunction()

function(lt_require_version what found least)
  if("${found}" VERSION_LESS "${least}")
    message(FATAL_ERROR "${what}: expected version ${least} or newer, found ${found}. PyPI has all that CUDA needs: "
                        "`bash launch/deps.sh --cuda=FOLDER` and -DLIBTRAIN_CUDA_ROOT=FOLDER/nvidia; or configure with "
                        "-DLIBTRAIN_CUDA=OFF")
  endif()
endfunction()

# CUDA: the toolkit, NCCL and cuDNN, either from the system or all from LIBTRAIN_CUDA_ROOT.
set(LIBTRAIN_NCCL_VERSION "")
set(LIBTRAIN_CUDNN_VERSION "")
if(LIBTRAIN_CUDA_ROOT AND NOT LIBTRAIN_CUDA)
  message(FATAL_ERROR "LIBTRAIN_CUDA_ROOT=${LIBTRAIN_CUDA_ROOT} has no effect without -DLIBTRAIN_CUDA=ON; "
                      "-ULIBTRAIN_CUDA_ROOT forgets it")
endif()
set(LIBTRAIN_CUDA_RUNTIME "")
set(LIBTRAIN_CUDA_RPATH "")
set(LIBTRAIN_CUDA_LINK_OPTIONS "")
if(LIBTRAIN_CUDA)
  if(LIBTRAIN_CUDA_ROOT)
    include(CudaPackages)
  endif()
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 90 CACHE STRING "" FORCE)
  endif()
  include(CheckLanguage)
  check_language(CUDA)
  if(NOT CMAKE_CUDA_COMPILER)
    message(FATAL_ERROR "nvcc was not found. Install the CUDA toolkit (https://developer.nvidia.com/cuda-downloads) and put "
                        "nvcc on PATH, or take that of PyPI: `bash launch/deps.sh --cuda=FOLDER` and "
                        "-DLIBTRAIN_CUDA_ROOT=FOLDER/nvidia; or configure with -DLIBTRAIN_CUDA=OFF")
  endif()
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know that nvcc 13 has this option
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  find_package(CUDAToolkit REQUIRED)
  lt_require_version("The CUDA toolkit" "${CUDAToolkit_VERSION}" 13.0)
  set(LIBTRAIN_CUDA_RUNTIME CUDA::cudart)

  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(NOT NCCL_INCLUDE_DIR OR NOT NCCL_LIBRARY)
    message(FATAL_ERROR "NCCL was not found. Install it from NVIDIA's repository: apt-get install libnccl-dev, or name its "
                        "folder with -DCMAKE_PREFIX_PATH=..., or configure with -DLIBTRAIN_CUDA=OFF")
  endif()
  lt_header_version(LIBTRAIN_NCCL_VERSION "${NCCL_INCLUDE_DIR}/nccl.h" NCCL_MAJOR NCCL_MINOR NCCL_PATCH)
  lt_require_version("NCCL (${NCCL_INCLUDE_DIR})" "${LIBTRAIN_NCCL_VERSION}" 2.28)
  lt_linked_library(nccl libnccl-dev "${NCCL_LIBRARY}" nccl libnccl.so.2)
  target_include_directories(lt_nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
endif()

# CUPTI. Kernel profiles need only its header, because they load the library when they begin. bench/graph_gaps.cpp, which
# is loaded into other programs, links it.
set(LIBTRAIN_HAS_CUPTI OFF)
if(LIBTRAIN_CUDA)
  find_path(LIBTRAIN_CUPTI_INCLUDE_DIR cupti.h
            HINTS ${CUDAToolkit_INCLUDE_DIRS} ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI/include)
  if(LIBTRAIN_CUPTI_INCLUDE_DIR)
    set(LIBTRAIN_HAS_CUPTI ON)
    find_library(LIBTRAIN_CUPTI_LIBRARY NAMES cupti
                 HINTS ${CUDAToolkit_LIBRARY_DIR} ${CUDAToolkit_LIBRARY_ROOT}/extras/CUPTI/lib64)
    if(NOT LIBTRAIN_CUPTI_LIBRARY)
      message(STATUS "The library of CUPTI was not found: no bench/libgraph_gaps.so")
    endif()
  else()
    message(STATUS "cupti.h was not found: no kernel profiles (apt-get install cuda-cupti-dev-13-0)")
  endif()
endif()

# cuDNN, with the headers of cudnn-frontend that `bash launch/deps.sh --cuda` puts into build/third_party.
set(LIBTRAIN_HAS_CUDNN OFF)
if(LIBTRAIN_CUDA)
  find_path(LIBTRAIN_CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h
            HINTS ${PROJECT_SOURCE_DIR}/build/third_party/cudnn-frontend/include)
  find_path(LIBTRAIN_CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(LIBTRAIN_CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR})
  if(LIBTRAIN_CUDNN_FRONTEND_INCLUDE_DIR AND LIBTRAIN_CUDNN_INCLUDE_DIR AND LIBTRAIN_CUDNN_LIBRARY)
    set(LIBTRAIN_HAS_CUDNN ON)
    lt_header_version(LIBTRAIN_CUDNN_VERSION "${LIBTRAIN_CUDNN_INCLUDE_DIR}/cudnn_version.h" CUDNN_MAJOR CUDNN_MINOR CUDNN_PATCHLEVEL)
    lt_require_version("cuDNN (${LIBTRAIN_CUDNN_INCLUDE_DIR})" "${LIBTRAIN_CUDNN_VERSION}" 9.0)
    lt_linked_library(cudnn libcudnn9-dev-cuda-13 "${LIBTRAIN_CUDNN_LIBRARY}" cudnn libcudnn.so.9)
    target_include_directories(lt_cudnn SYSTEM INTERFACE ${LIBTRAIN_CUDNN_FRONTEND_INCLUDE_DIR} ${LIBTRAIN_CUDNN_INCLUDE_DIR})
  else()
    set(without "cuDNN")
    if(LIBTRAIN_CUDNN_INCLUDE_DIR AND LIBTRAIN_CUDNN_LIBRARY)
      set(without "cudnn-frontend")
    endif()
    message(STATUS "${without} was not found: attention in bf16 runs on own kernels, many times slower (bash launch/deps.sh --cuda)")
  endif()
endif()
