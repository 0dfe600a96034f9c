# Installation: PREFIX/bin/wmtp-host, PREFIX/lib (our libraries, plugins, the CMake package), PREFIX/include/wmtp, the
# template and the experiments under PREFIX/share/wmtp. Our libraries find each other by $ORIGIN: PREFIX can be moved.
include(CMakePackageConfigHelpers)

foreach(target wmtp_core wmtp_engine wmtp_cuda)
  if(TARGET ${target})
    install(TARGETS ${target} LIBRARY DESTINATION lib)
  endif()
endforeach()
if(TARGET wmtp-host)
  install(TARGETS wmtp-host RUNTIME DESTINATION bin)
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/experiments)
  install(DIRECTORY experiments DESTINATION share/wmtp)
endif()
if(NOT WMTP_ENGINE)
  return()
endif()

install(TARGETS wmtp_sdk EXPORT wmtpTargets LIBRARY DESTINATION lib)
install(DIRECTORY sdk/include/wmtp DESTINATION include)
install(DIRECTORY sdk/template DESTINATION share/wmtp)
install(EXPORT wmtpTargets NAMESPACE wmtp:: DESTINATION lib/cmake/wmtp)
configure_package_config_file(cmake/wmtpConfig.cmake.in ${PROJECT_BINARY_DIR}/wmtpConfig.cmake
  INSTALL_DESTINATION lib/cmake/wmtp)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/wmtpConfigVersion.cmake
  VERSION ${PROJECT_VERSION} COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/wmtpConfig.cmake ${PROJECT_BINARY_DIR}/wmtpConfigVersion.cmake
  cmake/FindLibTorch.cmake cmake/WmtpPlugin.cmake cmake/plugin.map DESTINATION lib/cmake/wmtp)
