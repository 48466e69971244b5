# Meshes networks with one thread and with two: both end, closed, and print the same. Run with
# cmake -DPROGRAM=… -DMODELS=… -P check_cgal.cmake
foreach(model siren torus_sdf_softplus sphere_cut_sdf_relu)
  set(before "")
  foreach(threads 1 2)
    execute_process(COMMAND ${PROGRAM} ${threads} ${MODELS}/${model}.onnx OUTPUT_VARIABLE output ERROR_VARIABLE output
      RESULT_VARIABLE status TIMEOUT 300)
    if(NOT status EQUAL 0)
      message(FATAL_ERROR "${PROGRAM} ${threads} ${model}: ${status}\n${output}")
    endif()
    if(before AND NOT before STREQUAL output)
      message(FATAL_ERROR "${model} differs:\n${before}${output}")
    endif()
    set(before "${output}")
  endforeach()
endforeach()
