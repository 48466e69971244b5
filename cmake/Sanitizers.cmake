# DRIFTBOUND_SANITIZERS, such as "address,undefined": library and program are compiled with these sanitizers and everything is
# linked with them. Most test programs are not compiled with them, so that their objects are those of every other build: what they call is
# looked at, but for functions in headers, of which the linker may take the test program's copy.
set(DRIFTBOUND_SANITIZERS "" CACHE STRING "Sanitizers for library and program, as -fsanitize takes them")
option(DRIFTBOUND_SANITIZE_NUMBERS
  "Sanitize what computes with numbers, too: its objects, else those of every other build, take most of the time" ON)

if(DRIFTBOUND_SANITIZERS)
  add_link_options(-fsanitize=${DRIFTBOUND_SANITIZERS})
endif()

function(driftbound_sanitize target)
  if(DRIFTBOUND_SANITIZERS)
    target_compile_options(${target} PRIVATE -O1 -g1 -fno-omit-frame-pointer -fsanitize=${DRIFTBOUND_SANITIZERS}
      -fno-sanitize=alignment,null,object-size,vptr -fno-sanitize-recover=all -Wno-error)
  endif()
endfunction()

# Of what computes with numbers that others have read.
function(driftbound_sanitize_numbers target)
  if(DRIFTBOUND_SANITIZE_NUMBERS)
    driftbound_sanitize(${target})
  endif()
endfunction()
