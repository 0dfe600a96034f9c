// Rounding up to a multiple.
#pragma once

#include <cstdint>

namespace wmtp {

constexpr int64_t round_up(int64_t value, int64_t to) { return (value + to - 1) / to * to; }

}  // namespace wmtp
