// How a group's flat storage is padded; `plan` counts with the same numbers. Knows no LibTorch.
#pragma once

#include <cstdint>

namespace wmtp {

/// Elements that each parameter of a group begins at a multiple of: 256 bytes in fp32, 128 in bf16.
inline constexpr int64_t alignment = 64;

inline int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace wmtp
