# The C++ standard and the warnings of all targets; uses ccache and mold if installed.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()

find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache can use a precompiled header only if it ignores the header's time stamp and defines. CCACHE_DEPEND finds
  # objects by the contents of all their headers: the preprocessed text of a precompiled header lacks its macros, and is
  # that of the previous one where that exists. With paths relative to CCACHE_BASEDIR, checkouts of the tree share
  # cached objects.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${CMAKE_SOURCE_DIR} CCACHE_DEPEND=1
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE})
endif()
find_program(MOLD mold)
if(MOLD)
  # Without separate-code, mold 1.10 may place .tbss at the end of an unmapped page, which the loader cannot protect:
  # one program in some hundred links does not start.
  add_link_options(-fuse-ld=mold -Wl,-z,separate-code)
endif()

add_library(wmtp_warnings INTERFACE)
# g++ 12 falsely reports overlaps in "text" + std::string (GCC bug 105651), and under sanitizers uninitialized
# optionals.
target_compile_options(wmtp_warnings INTERFACE -Wall -Wextra -Werror -Wno-unused-parameter -Wno-restrict)
if(WMTP_SANITIZE)
  target_compile_options(wmtp_warnings INTERFACE -Wno-maybe-uninitialized)
  add_compile_options(-fsanitize=${WMTP_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${WMTP_SANITIZE})
endif()
