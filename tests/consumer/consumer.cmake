# Builds the example as somebody else's project, by find_package and by pkg-config on an installed copy; by
# add_subdirectory, which compiles all sources again, in subdirectory/. Run with
# cmake -DBUILD=… -DSOURCE=… -DWORK=… -DCXX=… -P consumer.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGV}\n${output}")
  endif()
endfunction()

set(EXPECTED ${SOURCE}/examples/error_of_a_layer/expected_output.txt)
function(check_output PROGRAM)
  include(${SOURCE}/tests/consumer/check_output.cmake)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)

run(${CMAKE_COMMAND} -S ${SOURCE}/examples/error_of_a_layer -B ${WORK}/find_package -G Ninja
  -DCMAKE_PREFIX_PATH=${WORK}/prefix -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build ${WORK}/find_package)
check_output(${WORK}/find_package/error_of_a_layer)

file(GLOB_RECURSE pc ${WORK}/prefix/driftbound.pc)
get_filename_component(pc_folder ${pc} DIRECTORY)
set(ENV{PKG_CONFIG_PATH} ${pc_folder})
execute_process(COMMAND pkg-config --static --cflags --libs driftbound OUTPUT_VARIABLE flags
  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
separate_arguments(flags)
run(${CXX} -std=c++20 ${SOURCE}/examples/error_of_a_layer/main.cpp -o ${WORK}/by_pkg_config ${flags})
check_output(${WORK}/by_pkg_config)
