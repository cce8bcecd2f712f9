# Language level, optimisation, warnings, sanitizers and ccache, the same for every target of the tree.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

find_program(LIBTRAIN_CCACHE ccache)
if(LIBTRAIN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${LIBTRAIN_CCACHE})
endif()

# With CMAKE_UNITY_BUILD=ON 16 files of a target are one compilation: from nothing, half the time. Names in the unnamed
# namespaces of a target must then differ; the presets `debug` and `fuzz`, launch/quickstart.sh and continuous
# integration build so.
if(NOT DEFINED CMAKE_UNITY_BUILD_BATCH_SIZE)
  set(CMAKE_UNITY_BUILD_BATCH_SIZE 16)
endif()

add_library(lt_options INTERFACE)
# -Wrestrict: GCC 12 reports correct std::string concatenations (GCC bug 105651).
target_compile_options(lt_options INTERFACE
  "$<$<COMPILE_LANGUAGE:CXX>:-Wall;-Wextra;-Wno-attributes;$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>;$<$<BOOL:${LIBTRAIN_WERROR}>:-Werror>>")
if(LIBTRAIN_CUDA)
  # constexpr functions of the library (conversions of bf16, Philox) run in kernels too.
  target_compile_options(lt_options INTERFACE
    "$<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr;-Xcompiler=-Wall;$<$<BOOL:${LIBTRAIN_WERROR}>:-Werror=all-warnings>>")
endif()
# errno of math functions and floating-point exception flags are never read; without these GCC does not vectorise sqrt,
# rint and selects. No value changes.
target_compile_options(lt_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-fno-math-errno> $<$<COMPILE_LANGUAGE:CXX>:-fno-trapping-math>)
if(LIBTRAIN_SANITIZE)
  # What is left out of `undefined` AddressSanitizer finds as well, and it costs a third of the compile time.
  add_compile_options(-fsanitize=address,undefined -fno-sanitize=null,vptr,object-size,pointer-overflow
                      -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
endif()
