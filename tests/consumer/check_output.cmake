# Compares what a program prints with a file. Run with cmake -DPROGRAM=… -DEXPECTED=… -P check_output.cmake
execute_process(COMMAND ${PROGRAM} OUTPUT_VARIABLE output RESULT_VARIABLE status)
file(READ ${EXPECTED} expected)
if(NOT status EQUAL 0 OR NOT output STREQUAL expected)
  message(FATAL_ERROR "${PROGRAM} printed\n${output}\nexpected\n${expected}")
endif()
