# lt_layer(NAME [COLD] SOURCES files... [PRIVATE libraries...]): the object library lt_NAME of one folder.
# COLD: code without loops over the data of a step. It is compiled with -Og, or with -O0 for the sanitizers (Debug),
# in two thirds of the time.
# All objects go into the library `libtrain`. A third-party package is visible only to the folder that needs it.
set_property(GLOBAL PROPERTY LT_LAYERS "")
set_property(GLOBAL PROPERTY LT_PRIVATE_LIBS "")

set(LT_COLD_OPTIONS "$<$<AND:$<COMPILE_LANGUAGE:CXX>,$<CONFIG:Release,RelWithDebInfo>>:-Og>" $<$<CONFIG:Debug>:-O0>)

function(lt_layer name)
  cmake_parse_arguments(ARG "COLD" "" "SOURCES;PRIVATE" ${ARGN})
  add_library(lt_${name} OBJECT ${ARG_SOURCES})
  target_include_directories(lt_${name} PRIVATE ${PROJECT_SOURCE_DIR}/libtrain/include ${PROJECT_SOURCE_DIR}/libtrain/src
                                                ${PROJECT_SOURCE_DIR}/base ${PROJECT_SOURCE_DIR}/kernels/include
                                                ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR}/generated)
  target_link_libraries(lt_${name} PRIVATE lt_options ${ARG_PRIVATE})
  if(ARG_COLD)
    target_compile_options(lt_${name} PRIVATE ${LT_COLD_OPTIONS})
  endif()
  set_property(GLOBAL APPEND PROPERTY LT_LAYERS lt_${name})
  set_property(GLOBAL APPEND PROPERTY LT_PRIVATE_LIBS ${ARG_PRIVATE})
endfunction()
