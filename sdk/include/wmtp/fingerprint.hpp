// The toolchain's fingerprint, as one C identifier:
// wmtp_plugin__sdk_0_9__headers_3f2a90c1d4e5__torch_2_11_0__gcc_12__abi_1.
// It contains everything that must match for a C++ object to be passed from a plugin to the host. Any change to the
// sdk's headers changes it.
#pragma once

#include <torch/headeronly/version.h>

#include <wmtp/headers_hash.hpp>

#define WMTP_SDK_MAJOR 0
#define WMTP_SDK_MINOR 9

#if defined(__clang__)
#define WMTP_COMPILER_NAME clang
#define WMTP_COMPILER_MAJOR __clang_major__
#else
#define WMTP_COMPILER_NAME gcc
#define WMTP_COMPILER_MAJOR __GNUC__
#endif

#define WMTP_DETAIL_JOIN(sdk_a, sdk_b, headers, t_a, t_b, t_c, cc, cc_v, abi) \
  wmtp_plugin__sdk_##sdk_a##_##sdk_b##__headers_##headers##__torch_##t_a##_##t_b##_##t_c##__##cc##_##cc_v##__abi_##abi
#define WMTP_DETAIL_EXPAND(sdk_a, sdk_b, headers, t_a, t_b, t_c, cc, cc_v, abi) \
  WMTP_DETAIL_JOIN(sdk_a, sdk_b, headers, t_a, t_b, t_c, cc, cc_v, abi)

#define WMTP_ENTRY_SYMBOL                                                                                       \
  WMTP_DETAIL_EXPAND(WMTP_SDK_MAJOR, WMTP_SDK_MINOR, WMTP_SDK_HEADERS, TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, \
                     TORCH_VERSION_PATCH, WMTP_COMPILER_NAME, WMTP_COMPILER_MAJOR, _GLIBCXX_USE_CXX11_ABI)

#define WMTP_DETAIL_TEXT_(x) #x
#define WMTP_DETAIL_TEXT(x) WMTP_DETAIL_TEXT_(x)
#define WMTP_ENTRY_SYMBOL_TEXT WMTP_DETAIL_TEXT(WMTP_ENTRY_SYMBOL)
