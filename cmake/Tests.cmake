# lt_test(NAME SOURCES ... [RANKS n ...] [CUDA_RANKS n ...] [HOST_RANKS n ...] [SANITIZE] [PRIVATE libraries...]
#         [TIMEOUT seconds])
# adds one Catch2 program. CTest runs it alone or, with RANKS, under mpirun once for each rank count. A program's main
# initialises MPI only if it is launched with ranks. CUDA_RANKS does the same in a build with CUDA, with one CUDA
# device per rank, and is skipped if there are fewer devices. HOST_RANKS is like CUDA_RANKS, but NCCL sees the ranks
# as two hosts. lt_cuda_test(NAME) marks a program whose tests always need a device. All of these tests have the label
# cuda, and the target cuda_tests builds them.
# Tests are compiled like cold code (cmake/Layers.cmake), after the precompiled headers of lt_test_headers.
# SANITIZE labels the test for the build with sanitizers (with RANKS, only 1 and 2 ranks), which builds the target
# sanitize_tests and runs only labelled tests.
add_custom_target(sanitize_tests)
add_custom_target(cuda_tests)

# Open MPI leaks by design, so only programs that run alone are checked for leaks.
set(LIBTRAIN_TEST_ENVIRONMENT "UBSAN_OPTIONS=print_stacktrace=1;OMP_WAIT_POLICY=passive")  # another may run beside it
set(LIBTRAIN_RANKS_ENVIRONMENT "OMP_NUM_THREADS=1;UBSAN_OPTIONS=print_stacktrace=1;ASAN_OPTIONS=detect_leaks=0")

function(lt_test name)
  cmake_parse_arguments(ARG "SANITIZE" "TIMEOUT" "SOURCES;RANKS;CUDA_RANKS;HOST_RANKS;PRIVATE" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests ${PROJECT_SOURCE_DIR}/libtrain/src ${PROJECT_SOURCE_DIR}/base
                                             ${PROJECT_SOURCE_DIR}/kernels/include ${PROJECT_SOURCE_DIR}
                                             ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(${name} PRIVATE lt_test_main libtrain lt_options lt_fmt lt_json ${ARG_PRIVATE})
  target_compile_options(${name} PRIVATE ${LT_COLD_OPTIONS})
  if(NOT "OpenMP::OpenMP_CXX" IN_LIST ARG_PRIVATE)  # -fopenmp defines a macro, so it needs headers of its own
    target_precompile_headers(${name} REUSE_FROM lt_test_headers)
    # With a precompiled <string>, GCC 12 gives these two warnings about correct concatenations.
    target_compile_options(${name} PRIVATE
      $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-array-bounds> $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-stringop-overflow>)
  endif()
  if(ARG_SANITIZE)
    add_dependencies(sanitize_tests ${name})
  endif()
  if(NOT ARG_RANKS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "OMP_NUM_THREADS=2;${LIBTRAIN_TEST_ENVIRONMENT}")
    if(ARG_SANITIZE)
      set_tests_properties(${name} PROPERTIES LABELS sanitize)
    endif()
  endif()
  foreach(n ${ARG_RANKS})
    add_test(NAME ${name}_${n}ranks
             COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --allow-run-as-root -n ${n} $<TARGET_FILE:${name}>)
    set_tests_properties(${name}_${n}ranks PROPERTIES TIMEOUT ${ARG_TIMEOUT} ENVIRONMENT "${LIBTRAIN_RANKS_ENVIRONMENT}")
    if(n GREATER 1)
      set_tests_properties(${name}_${n}ranks PROPERTIES RUN_SERIAL ON)
    endif()
    if(ARG_SANITIZE AND n LESS 3)
      set_tests_properties(${name}_${n}ranks PROPERTIES LABELS sanitize)
    endif()
  endforeach()
  if(NOT LIBTRAIN_CUDA)
    return()
  endif()
  foreach(n ${ARG_CUDA_RANKS})
    lt_cuda_ranks_test(${name} _cuda_${n}ranks ${n} ${ARG_TIMEOUT} "")
  endforeach()
  foreach(n ${ARG_HOST_RANKS})
    lt_cuda_ranks_test(${name} _cuda_${n}ranks_2hosts ${n} ${ARG_TIMEOUT} ";LT_TEST_HOSTS=2")
  endforeach()
endfunction()

function(lt_cuda_ranks_test name suffix n timeout environment)
  add_dependencies(cuda_tests ${name})
  add_test(NAME ${name}${suffix}
           COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --allow-run-as-root -n ${n} $<TARGET_FILE:${name}>)
  set_tests_properties(${name}${suffix} PROPERTIES TIMEOUT ${timeout} RUN_SERIAL ON
    ENVIRONMENT "${LIBTRAIN_RANKS_ENVIRONMENT};LT_TEST_DEVICE=cuda${environment}"
    SKIP_RETURN_CODE 77 LABELS cuda)
endfunction()

function(lt_cuda_test name)
  if(LIBTRAIN_CUDA)
    add_dependencies(cuda_tests ${name})
  endif()
  get_property(tests DIRECTORY PROPERTY TESTS)
  list(FILTER tests INCLUDE REGEX "^${name}")
  set_tests_properties(${tests} PROPERTIES LABELS cuda SKIP_RETURN_CODE 77 RUN_SERIAL ON)
endfunction()
