# The only place where floating-point flags are set. Every target whose results are certified, or
# must be the same bits everywhere, calls this function.
#
# -ffp-contract=off     a*b+c is two roundings unless the source says fma
# -fno-fast-math        no reassociation, no flush to zero, NaN and Inf exist
#
# and for CUDA the same, nvcc's defaults but for the first:
# --fmad=false          a*b+c is two roundings unless the source says fma
# --ftz=false           subnormal numbers are kept
# --prec-div=true       division and square root are rounded correctly
# --prec-sqrt=true
set(DRIFTBOUND_CUDA_FLOATING_POINT_FLAGS --fmad=false --ftz=false --prec-div=true --prec-sqrt=true)

function(driftbound_set_floating_point_flags target)
  target_compile_options(${target} PRIVATE
    $<$<COMPILE_LANGUAGE:CXX>:-ffp-contract=off>
    $<$<COMPILE_LANGUAGE:CXX>:-fno-fast-math>
    "$<$<COMPILE_LANGUAGE:CUDA>:${DRIFTBOUND_CUDA_FLOATING_POINT_FLAGS};-Xcompiler=-ffp-contract=off>")
endfunction()
