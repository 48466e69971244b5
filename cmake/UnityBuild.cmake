# driftbound_compile_together(TARGET [SOURCE...]): with DRIFTBOUND_UNITY_BUILD the sources of a target are compiled several at once,
# except those given: names that they keep to themselves are names in other files too. Warnings about names of one file that mean
# something in another are for builds without (the preset "edit", and scripts/check_sources.sh). Sources are joined within one folder of
# the target's own, eight at a time: a new source leaves the objects of the other folders as they are.
option(DRIFTBOUND_UNITY_BUILD "Compile several sources at once: whole builds take half as long" OFF)

function(driftbound_compile_together target)
  if(DRIFTBOUND_UNITY_BUILD)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_MODE GROUP)
    get_target_property(sources ${target} SOURCES)
    foreach(source ${sources})
      if(source MATCHES "[.]cpp$")
        get_filename_component(folder ${source} ABSOLUTE)
        file(RELATIVE_PATH folder ${CMAKE_CURRENT_SOURCE_DIR} ${folder})
        string(REGEX REPLACE "/.*" "" folder ${folder})
        if(folder MATCHES "[.]")
          set(folder ${target})
        endif()
        list(APPEND sources_of_${folder} ${source})
        list(LENGTH sources_of_${folder} count)
        math(EXPR group "(${count} - 1) / 8")
        set_property(SOURCE ${source} PROPERTY UNITY_GROUP ${folder}_${group})
      endif()
    endforeach()
    set_source_files_properties(${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-shadow;-Wno-subobject-linkage>)
  endif()
endfunction()
