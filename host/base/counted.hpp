// A number with its noun: "1 rank", "2 ranks", "1,200 steps".
#pragma once

#include <cstdint>
#include <string>

#include "base/text.hpp"

namespace wmtp {

/// The plural of `noun` ends in `ending`.
inline std::string counted(int64_t number, const std::string& noun, const std::string& ending = "s") {
  return with_thousands(number) + " " + noun + (number == 1 ? "" : ending);
}

}  // namespace wmtp
