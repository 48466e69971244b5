include(CMakePackageConfigHelpers)

install(TARGETS driftbound EXPORT driftboundTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT dev
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/ DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} COMPONENT dev)
if(TARGET driftbound_program)
  # What implements driftbound/c. Its own headers are not installed.
  install(TARGETS driftbound_analysis EXPORT driftboundTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT dev)
  install(TARGETS driftbound_program RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
endif()
if(TARGET driftbound_cuda)
  install(TARGETS driftbound_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/driftbound-modules COMPONENT runtime)
endif()
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT dev)

set(config_folder ${CMAKE_INSTALL_LIBDIR}/cmake/driftbound)
install(EXPORT driftboundTargets NAMESPACE driftbound:: DESTINATION ${config_folder} COMPONENT dev)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/driftboundConfig.cmake.in
  ${PROJECT_BINARY_DIR}/driftboundConfig.cmake INSTALL_DESTINATION ${config_folder})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/driftboundConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/driftboundConfig.cmake ${PROJECT_BINARY_DIR}/driftboundConfigVersion.cmake
  ${PROJECT_SOURCE_DIR}/cmake/FindMPFR.cmake DESTINATION ${config_folder} COMPONENT dev)

file(RELATIVE_PATH DRIFTBOUND_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
# A static library needs the libraries behind it whether or not --static is given.
get_target_property(driftbound_type driftbound TYPE)
if(driftbound_type STREQUAL "STATIC_LIBRARY")
  set(DRIFTBOUND_PC_LIBS " -lmpfr -lgmp -lfmt -lzip -lpthread -ldl")
endif()
set(pc_files ${PROJECT_BINARY_DIR}/driftbound.pc)
if(TARGET driftbound_program)
  list(APPEND pc_files ${PROJECT_BINARY_DIR}/driftbound-analysis.pc)
endif()
foreach(file ${pc_files})
  get_filename_component(name ${file} NAME)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${name}.in ${file} @ONLY)
endforeach()
install(FILES ${pc_files} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT dev)
