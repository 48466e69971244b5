# Builds the example as somebody else's project, three ways: find_package on an installed copy,
# add_subdirectory on the sources, pkg-config on the installed copy. Run with
# cmake -DBUILD=… -DSOURCE=… -DWORK=… -DCXX=… -P consumer.cmake
function(run)
  execute_process(COMMAND ${ARGV} RESULT_VARIABLE status OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT status EQUAL 0)
    message(FATAL_ERROR "failed: ${ARGV}\n${output}")
  endif()
endfunction()

function(check_output program)
  execute_process(COMMAND ${program} OUTPUT_VARIABLE output RESULT_VARIABLE status)
  file(READ ${SOURCE}/examples/error_of_a_layer/expected_output.txt expected)
  if(NOT status EQUAL 0 OR NOT output STREQUAL expected)
    message(FATAL_ERROR "${program} printed\n${output}\nexpected\n${expected}")
  endif()
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

file(WRITE ${WORK}/parent/CMakeLists.txt "cmake_minimum_required(VERSION 3.25)
project(parent LANGUAGES C CXX)
add_subdirectory(${SOURCE} driftbound)
add_subdirectory(${SOURCE}/examples/error_of_a_layer example)
")
run(${CMAKE_COMMAND} -S ${WORK}/parent -B ${WORK}/subdirectory -G Ninja -DCMAKE_BUILD_TYPE=Debug)
run(${CMAKE_COMMAND} --build ${WORK}/subdirectory --target error_of_a_layer -j2)
check_output(${WORK}/subdirectory/example/error_of_a_layer)
