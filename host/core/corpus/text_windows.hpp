// Windows over a text that is longer than the model's context, and which tokens of a window are new.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace wmtp {

struct TextWindow {
  size_t begin, end;  ///< token positions in the text
  size_t first_new;   ///< earlier tokens of the window were in the window before and are context only
};

/// With stride == longest, adjacent windows of which the last may be shorter. With a smaller stride (not 0) every
/// window of a long enough text is full, and new tokens after the first window have at least `longest - stride` tokens
/// before them: the last window begins earlier for that.
inline std::vector<TextWindow> windows_of_text(size_t tokens, size_t longest, size_t stride) {
  const size_t last_begin = stride == longest ? tokens : tokens - std::min(tokens, longest);
  std::vector<TextWindow> windows;
  for (size_t next = 0, read = 0; read < tokens; next += stride) {
    const size_t begin = std::min(next, last_begin);
    windows.push_back({begin, std::min(begin + longest, tokens), read});
    read = windows.back().end;
  }
  return windows;
}

}  // namespace wmtp
