# DRIFTBOUND_SANITIZERS, such as "address,undefined": library and program are compiled with these sanitizers and everything is
# linked with them. Test programs are not compiled with them: what they call is, and their objects are those of every other build.
set(DRIFTBOUND_SANITIZERS "" CACHE STRING "Sanitizers for library and program, as -fsanitize takes them")

if(DRIFTBOUND_SANITIZERS)
  add_link_options(-fsanitize=${DRIFTBOUND_SANITIZERS})
endif()

function(driftbound_sanitize target)
  if(DRIFTBOUND_SANITIZERS)
    target_compile_options(${target} PRIVATE -O1 -g1 -fno-omit-frame-pointer -fsanitize=${DRIFTBOUND_SANITIZERS}
      -fno-sanitize=null,object-size,vptr -fno-sanitize-recover=all -Wno-error)
  endif()
endfunction()
