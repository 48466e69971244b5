# The only place where floating-point flags are set. Every target whose results are certified, or
# must be the same bits everywhere, calls this function.
#
# -ffp-contract=off     a*b+c is two roundings unless the source says fma
# -fno-fast-math        no reassociation, no flush to zero, NaN and Inf exist
function(driftbound_set_floating_point_flags target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-fast-math>)
endfunction()
