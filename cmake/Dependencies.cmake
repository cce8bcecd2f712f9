# Every third-party package in one place. A missing one ends the configuration with the package to install.
# launch/deps.sh installs all of them.
function(lt_missing what package)
  message(FATAL_ERROR "${what} was not found. Install it with `bash launch/deps.sh`, or: apt-get install ${package}")
endfunction()

set(OpenMP_RUNTIME_MSG "")
find_package(OpenMP COMPONENTS CXX)
if(NOT OpenMP_CXX_FOUND)
  lt_missing("OpenMP" "g++")
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
# A value becomes text or a number only where the code says so: no overload is taken by surprise.
target_compile_definitions(lt_json INTERFACE JSON_USE_IMPLICIT_CONVERSIONS=0)

find_package(CLI11 QUIET)
if(NOT CLI11_FOUND)
  lt_missing("CLI11" "libcli11-dev")
endif()

find_path(TOMLPLUSPLUS_INCLUDE_DIR toml++/toml.h)
if(NOT TOMLPLUSPLUS_INCLUDE_DIR)
  lt_missing("toml++" "libtomlplusplus-dev")
endif()

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

set(LIBTRAIN_HAS_ONEDNN OFF)
if(NOT LIBTRAIN_ONEDNN STREQUAL "OFF")
  find_package(dnnl QUIET CONFIG)
  if(dnnl_FOUND)
    set(LIBTRAIN_HAS_ONEDNN ON)
  elseif(LIBTRAIN_ONEDNN STREQUAL "ON")
    lt_missing("oneDNN" "libdnnl-dev")
  else()
    message(STATUS "oneDNN was not found: CPU matrix products run on own loops, several times slower (apt-get install libdnnl-dev)")
  endif()
endif()

if(LIBTRAIN_TESTS)
  find_package(Catch2 QUIET)
  if(NOT Catch2_FOUND)
    lt_missing("Catch2" "catch2")
  endif()
endif()
