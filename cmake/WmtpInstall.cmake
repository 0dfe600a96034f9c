# Installation: PREFIX/bin, PREFIX/lib (our libraries, plugins, the CMake package), PREFIX/include/wmtp, the experiments
# and the licence under PREFIX/share/wmtp, the pages as in the tree under PREFIX/share/doc/wmtp-host, manual pages and
# completions where man and the shells look. Our libraries find each other through $ORIGIN, so PREFIX can be moved. The
# build folder is also such a prefix, where find_package(wmtp) works.
include(CMakePackageConfigHelpers)

foreach(target wmtp_core wmtp_engine wmtp_cuda)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION lib)
  endif()
endforeach()
foreach(target wmtp-host wmtp-engine)
  if(TARGET ${target})
    install(TARGETS ${target} RUNTIME DESTINATION bin)
  endif()
endforeach()
install(FILES LICENSE DESTINATION share/wmtp)
if(EXISTS ${PROJECT_SOURCE_DIR}/experiments)
  install(DIRECTORY experiments DESTINATION share/wmtp)
endif()
install(DIRECTORY ${PROJECT_BINARY_DIR}/share/ DESTINATION share)
install(FILES README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md LICENSE DESTINATION share/doc/wmtp-host)
install(DIRECTORY docs DESTINATION share/doc/wmtp-host)
install(FILES db/README.md DESTINATION share/doc/wmtp-host/db)
if(NOT WMTP_ENGINE)
  return()
endif()

install(TARGETS wmtp_sdk EXPORT wmtpTargets LIBRARY DESTINATION lib)
install(DIRECTORY sdk/include/wmtp ${PROJECT_BINARY_DIR}/include/wmtp DESTINATION include)
install(EXPORT wmtpTargets NAMESPACE wmtp:: DESTINATION lib/cmake/wmtp)
set(package ${PROJECT_BINARY_DIR}/lib/cmake/wmtp)
set(package_files cmake/FindLibTorch.cmake cmake/WmtpPlugin.cmake cmake/plugin.map)
configure_package_config_file(cmake/wmtpConfig.cmake.in ${package}/wmtpConfig.cmake
  INSTALL_DESTINATION lib/cmake/wmtp)
write_basic_package_version_file(${package}/wmtpConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${package}/wmtpConfig.cmake ${package}/wmtpConfigVersion.cmake ${package_files}
  DESTINATION lib/cmake/wmtp)
file(COPY ${package_files} DESTINATION ${package})
export(EXPORT wmtpTargets NAMESPACE wmtp:: FILE ${package}/wmtpTargets.cmake)
