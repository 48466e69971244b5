# driftbound_compile_together(TARGET [SOURCE...]): with DRIFTBOUND_UNITY_BUILD the sources of a target are compiled several at once,
# except those given: names that they keep to themselves are names in other files too. Warnings about names of one file that mean
# something in another are for builds without (the preset "edit", and scripts/check_sources.sh).
option(DRIFTBOUND_UNITY_BUILD "Compile several sources at once: whole builds take half as long" OFF)

function(driftbound_compile_together target)
  if(DRIFTBOUND_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-shadow;-Wno-subobject-linkage>)
  endif()
endfunction()
