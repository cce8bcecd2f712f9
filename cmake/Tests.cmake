# lt_test(NAME SOURCES ... [RANKS n ...]): one Catch2 program, registered with CTest alone and, with RANKS, under mpirun
# for each rank count given. A program's main initialises MPI only where it is launched with ranks.
function(lt_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;RANKS;PRIVATE" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/libtrain/src
                                             ${PROJECT_SOURCE_DIR}/kernels/include ${PROJECT_SOURCE_DIR}/checkpoints
                                             ${PROJECT_SOURCE_DIR}/launch)
  target_link_libraries(${name} PRIVATE lt_test_main libtrain::libtrain lt_options fmt::fmt-header-only nlohmann_json::nlohmann_json ${ARG_PRIVATE})
  if(NOT ARG_RANKS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "OMP_NUM_THREADS=2")
  endif()
  foreach(n ${ARG_RANKS})
    add_test(NAME ${name}_${n}ranks
             COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --allow-run-as-root -n ${n} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}_${n}ranks PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "OMP_NUM_THREADS=1" RUN_SERIAL ON)
  endforeach()
endfunction()
