#include "base/printable.hpp"

namespace wmtp {

std::string printable(std::string_view name) {
  constexpr size_t limit = 120;
  constexpr char digits[] = "0123456789abcdef";
  std::string text = "\"";
  for (const char c : name.substr(0, limit)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      text += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    } else {
      text += c;
    }
  }
  return text + (name.size() > limit ? "…\"" : "\"");
}

}  // namespace wmtp
