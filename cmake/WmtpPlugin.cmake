# wmtp_add_plugin(NAME x KIND pipeline|adapter|auxiliary_loss SOURCES a.cpp … [FOLDER dir])
#
# Builds the library x.so in lib/wmtp/plugins/{pipelines,adapters,auxiliary_losses} of the build folder and installs it
# to the same path of the prefix; it links the sdk and exports only its entry. Target: KIND_x. Works in this tree and
# after find_package(wmtp).
# FOLDER: a path to use instead of lib/wmtp/plugins; such a plugin is not installed.
# With WMTP_STATIC_PLUGINS, in this tree only, the plugin is linked into the engine instead.
#
# wmtp_add_plugin_test(x KIND kind), after find_package(wmtp): a test that runs `wmtp-host plugins check` on the plugin.
set(_wmtp_version_script ${CMAKE_CURRENT_LIST_DIR}/plugin.map)
set(_wmtp_folder_of_pipeline pipelines)
set(_wmtp_folder_of_adapter adapters)
set(_wmtp_folder_of_auxiliary_loss auxiliary_losses)

function(wmtp_add_plugin)
  cmake_parse_arguments(PARSE_ARGV 0 arg "" "NAME;KIND;FOLDER" "SOURCES")
  if(arg_UNPARSED_ARGUMENTS OR NOT arg_NAME MATCHES "^[a-z][a-z0-9_]*$" OR NOT arg_SOURCES
     OR NOT DEFINED _wmtp_folder_of_${arg_KIND})
    message(FATAL_ERROR "wmtp_add_plugin(NAME x KIND pipeline|adapter|auxiliary_loss SOURCES a.cpp …) was called as "
                        "wmtp_add_plugin(${ARGV}); a name has lower case letters, digits and '_'")
  endif()
  set(target ${arg_KIND}_${arg_NAME})
  if(WMTP_STATIC_PLUGINS AND TARGET wmtp_engine)
    add_library(${target} OBJECT ${arg_SOURCES})
    target_compile_definitions(${target} PRIVATE WMTP_STATIC_PLUGIN)
    target_sources(wmtp_engine PRIVATE $<TARGET_OBJECTS:${target}>)
  else()
    add_library(${target} MODULE ${arg_SOURCES})
    _wmtp_place_plugin(${target} ${arg_NAME} ${_wmtp_folder_of_${arg_KIND}} "${arg_FOLDER}")
    # Every symbol must come from the sdk or LibTorch, so that a missing one fails at link time, not at run time.
    target_link_options(${target} PRIVATE LINKER:--version-script=${_wmtp_version_script} LINKER:-z,defs)
    set_target_properties(${target} PROPERTIES LINK_DEPENDS ${_wmtp_version_script})
  endif()
  target_link_libraries(${target} PRIVATE wmtp::sdk $<TARGET_NAME_IF_EXISTS:wmtp_warnings>)
  set_target_properties(${target} PROPERTIES
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON POSITION_INDEPENDENT_CODE ON CXX_EXTENSIONS OFF)
  if(TARGET wmtp_plugin_header AND NOT WMTP_STATIC_PLUGINS)
    target_precompile_headers(${target} REUSE_FROM wmtp_plugin_header)
  endif()
endfunction()

function(wmtp_add_plugin_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "KIND" "")
  add_test(NAME ${name} COMMAND ${WMTP_HOST} plugins check $<TARGET_FILE:${arg_KIND}_${name}>)
endfunction()

function(_wmtp_place_plugin target name kinds folder)
  set(place wmtp/plugins/${kinds})
  if(NOT folder)
    set(folder ${CMAKE_BINARY_DIR}/lib/wmtp/plugins)
    install(TARGETS ${target} LIBRARY DESTINATION lib/${place})
  endif()
  # The same run path for build and installation: CMake would pad the build's with an empty entry, the current folder.
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} PREFIX "" SUFFIX ".so"
    LIBRARY_OUTPUT_DIRECTORY ${folder}/${kinds} INSTALL_RPATH "$ORIGIN/../../.." BUILD_WITH_INSTALL_RPATH ON)
endfunction()
