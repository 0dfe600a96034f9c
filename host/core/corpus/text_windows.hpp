// How a text longer than a model reads is cut into windows, and which of a window's tokens are new. Knows no LibTorch.
#pragma once

#include <cstddef>
#include <vector>

namespace wmtp {

struct TextWindow {
  size_t begin, end;  ///< of the text's tokens
  size_t first_new;   ///< those before it the window before has read; they are context alone
};

/// With a stride of the window's length the windows lie side by side, and the last one is what is left. With a smaller
/// one (not 0) every window is whole, in a text as long as that, and each new token but the first window's has at least
/// `longest - stride` before it: for that the last window begins earlier.
std::vector<TextWindow> windows_of_text(size_t tokens, size_t longest, size_t stride);

}  // namespace wmtp
