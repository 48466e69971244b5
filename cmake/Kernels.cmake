# driftbound_add_kernels(TARGET INSTRUCTION_SETS... SOURCES...): compiles each source once for each of these instruction
# sets, with DRIFTBOUND_SIMD_TARGET set to its name, and adds the objects to TARGET (src/simd/target.hpp). Processors other
# than x86-64 have the set baseline alone: what the compiler assumes of them.
#   driftbound_add_kernels(driftbound INSTRUCTION_SETS baseline avx2 avx512 SOURCES bounds/kernels/rows.cpp)
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("#ifndef __x86_64__\n#error\n#endif\nint main() { return 0; }" DRIFTBOUND_X86_64)

set(DRIFTBOUND_FLAGS_baseline)
set(DRIFTBOUND_FLAGS_avx2 -mavx2 -mfma)
set(DRIFTBOUND_FLAGS_avx512 ${DRIFTBOUND_FLAGS_avx2} -mavx512f)
set(DRIFTBOUND_FLAGS_vnni ${DRIFTBOUND_FLAGS_avx512} -mavx512vnni)
set(DRIFTBOUND_FLAGS_amx ${DRIFTBOUND_FLAGS_vnni} -mamx-tile -mamx-int8)

# The objects of one instruction set; further arguments are folders of headers.
function(driftbound_kernel_library library target set)
  add_library(${library} OBJECT)
  target_compile_features(${library} PRIVATE cxx_std_20)
  target_include_directories(${library} PRIVATE ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include ${ARGN})
  target_compile_definitions(${library} PRIVATE DRIFTBOUND_SIMD_TARGET=${set})
  set_target_properties(${library} PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  driftbound_set_floating_point_flags(${library})
  driftbound_set_warnings(${library})
  driftbound_sanitize_numbers(${library})
  # Passing wide vectors between functions of one file has no ABI to keep.
  target_compile_options(${library} PRIVATE -Wno-psabi ${DRIFTBOUND_FLAGS_${set}})
  if(NOT DRIFTBOUND_SANITIZERS OR NOT DRIFTBOUND_SANITIZE_NUMBERS)  # instrumented loops take minutes to optimise
    target_compile_options(${library} PRIVATE -O3)
  endif()
  target_sources(${target} PRIVATE $<TARGET_OBJECTS:${library}>)
endfunction()

function(driftbound_add_kernels target)
  cmake_parse_arguments(kernels "" "" "INSTRUCTION_SETS;SOURCES" ${ARGN})
  foreach(set ${kernels_INSTRUCTION_SETS})
    if(set STREQUAL "baseline" OR DRIFTBOUND_X86_64)
      set(library ${target}_kernels_${set})
      if(NOT TARGET ${library})
        driftbound_kernel_library(${library} ${target} ${set} ${CMAKE_CURRENT_SOURCE_DIR})
      endif()
      target_sources(${library} PRIVATE ${kernels_SOURCES})
    endif()
  endforeach()
endfunction()
