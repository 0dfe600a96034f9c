// Splits a text longer than the model's context into windows, and marks the new tokens of each window.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace wmtp {

struct TextWindow {
  size_t begin, end;  ///< token positions in the text
  size_t first_new;   ///< earlier tokens of the window are context only: they were in the previous window
};

/// With stride == longest, windows are adjacent, and the last may be shorter; if it would be shorter than `shortest`,
/// it begins with tokens of the one before it. With a smaller stride (not 0) every window of a long enough text is
/// full, and new tokens after the first window have at least `longest - stride` preceding tokens, because the last
/// window starts earlier.
inline std::vector<TextWindow> split_into_windows(size_t tokens, size_t longest, size_t stride, size_t shortest = 1) {
  const size_t last_begin = tokens - std::min(tokens, stride == longest ? std::min(shortest, longest) : longest);
  std::vector<TextWindow> windows;
  for (size_t next = 0, read = 0; read < tokens; next += stride) {
    const size_t begin = std::min(next, last_begin);
    windows.push_back({begin, std::min(begin + longest, tokens), read});
    read = windows.back().end;
  }
  return windows;
}

}  // namespace wmtp
