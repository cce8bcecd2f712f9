# Sets the language level, optimisation, warnings, sanitizers and ccache for every target.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)  # but for the public headers (libtrain/include/libtrain/api.h)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Without a choice of the build type the library is optimised. As a subfolder it leaves its project's cache alone.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  if(PROJECT_IS_TOP_LEVEL)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
  else()
    set(CMAKE_BUILD_TYPE Release)
  endif()
endif()

find_program(LIBTRAIN_CCACHE ccache)
if(LIBTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LIBTRAIN_CCACHE})
endif()

# CMAKE_UNITY_BUILD=ON compiles up to 40 files of a target at once, which halves the time of a full build. Names in the
# unnamed namespaces of a target must then differ. The presets `debug` and `fuzz`, launch/quickstart.sh and continuous
# integration build this way.
if(NOT DEFINED CMAKE_UNITY_BUILD_BATCH_SIZE)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 40)
endif()

add_library(lt_options INTERFACE)
# -Wno-restrict: GCC 12 warns about correct std::string concatenations (GCC bug 105651).
target_compile_options(lt_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-attributes;$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>;$<$<BOOL:${LIBTRAIN_WERROR}>:-Werror>>")
if(LIBTRAIN_CUDA)
  # constexpr functions of the library (bf16 conversions, Philox) also run in kernels.
  target_compile_options(lt_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall;$<$<BOOL:${LIBTRAIN_WERROR}>:-Werror=all-warnings>>")
endif()
# No code reads errno of math functions or floating-point exception flags. Without these options GCC does not vectorise
# sqrt, rint and selects. No value changes.
target_compile_options(lt_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno> $<$<COMPILE_LANGUAGE:CXX>:-fno-trapping-math>)
if(LIBTRAIN_SANITIZE)
  # AddressSanitizer also covers the checks left out of `undefined`, which cost a third of the compile time.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null,vptr,object-size,pointer-overflow
                      -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  # Programs of another project link the library with these too.
  set(LT_SANITIZE_LINK_OPTIONS -fsanitize=address,undefined)
  add_link_options(${LT_SANITIZE_LINK_OPTIONS})
endif()
if(LIBTRAIN_NATIVE)  # the x86-64 level of kernels/cpu/parallel.h; none below AVX2 and on other processors
  include(CheckCXXSourceRuns)
  unset(LIBTRAIN_HAS_AVX512 CACHE)  # a folder may be configured again on another machine
  unset(LIBTRAIN_HAS_AVX2 CACHE)
  check_cxx_source_runs("int main() { return __builtin_cpu_supports(\"avx512f\") && __builtin_cpu_supports(\"avx512bw\") &&
    __builtin_cpu_supports(\"avx512cd\") && __builtin_cpu_supports(\"avx512dq\") && __builtin_cpu_supports(\"avx512vl\") ? 0 : 1; }"
    LIBTRAIN_HAS_AVX512)
  check_cxx_source_runs("int main() { return __builtin_cpu_supports(\"avx2\") && __builtin_cpu_supports(\"fma\") &&
    __builtin_cpu_supports(\"bmi\") && __builtin_cpu_supports(\"bmi2\") ? 0 : 1; }" LIBTRAIN_HAS_AVX2)
  if(LIBTRAIN_HAS_AVX512 AND LIBTRAIN_HAS_AVX2)
    target_compile_definitions(lt_options INTERFACE LIBTRAIN_CPU_LEVEL=4)
  elseif(LIBTRAIN_HAS_AVX2)
    target_compile_definitions(lt_options INTERFACE LIBTRAIN_CPU_LEVEL=3)
  endif()
endif()
