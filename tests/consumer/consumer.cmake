# Builds examples as somebody else's projects, by find_package and by pkg-config on an installed copy; by
# add_subdirectory, which compiles all sources again, in subdirectory/. Run with
# cmake -DBUILD=… -DSOURCE=… -DWORK=… -DCC=… -DCXX=… -DEIGEN=… -P consumer.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGV}\n${output}")
  endif()
endfunction()

function(check_output PROGRAM EXAMPLE)
  set(EXPECTED ${SOURCE}/examples/${EXAMPLE}/expected_output.txt)
  include(${SOURCE}/tests/consumer/check_output.cmake)
endfunction()

set(examples error_of_a_layer tolerance_in_c probe_in_c)
set(packages_of_error_of_a_layer driftbound)
set(packages_of_tolerance_in_c driftbound-analysis)
set(packages_of_probe_in_c driftbound-analysis)
if(EIGEN)
  list(APPEND examples signs_of_a_field)
  set(packages_of_signs_of_a_field driftbound eigen3)
endif()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
file(GLOB_RECURSE pc ${WORK}/prefix/driftbound.pc)
get_filename_component(pc_folder ${pc} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${pc_folder})

foreach(example ${examples})
  run(${CMAKE_COMMAND} -S ${SOURCE}/examples/${example} -B ${WORK}/${example} -G Ninja
    -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_BUILD_TYPE=Release)
  run(${CMAKE_COMMAND} --build ${WORK}/${example})
  check_output(${WORK}/${example}/${example} ${example})

  execute_process(COMMAND pkg-config --static --cflags --libs ${packages_of_${example}} OUTPUT_VARIABLE flags
    OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags)
  if(EXISTS ${SOURCE}/examples/${example}/main.c)
    run(${CC} -std=c99 ${SOURCE}/examples/${example}/main.c -o ${WORK}/${example}_by_pkg_config ${flags})
  else()
    run(${CXX} -std=c++20 ${SOURCE}/examples/${example}/main.cpp -o ${WORK}/${example}_by_pkg_config ${flags})
  endif()
  check_output(${WORK}/${example}_by_pkg_config ${example})
endforeach()
