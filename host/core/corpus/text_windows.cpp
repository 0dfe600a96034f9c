#include "core/corpus/text_windows.hpp"

#include <algorithm>

namespace wmtp {

std::vector<TextWindow> windows_of_text(size_t tokens, size_t longest, size_t stride) {
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
