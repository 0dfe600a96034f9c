#include "data/utf8.hpp"

namespace wmtp {

namespace {

/// Bytes of the character that starts here, 0 when none does.
size_t character_length(std::string_view bytes) {
  const auto at = [&](size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || bytes.size() < length) return 0;
  for (size_t i = 1; i < length; ++i)
    if (at(i) < 0x80 || at(i) > 0xbf) return 0;
  const unsigned char second = at(1);
  if (first == 0xe0 && second < 0xa0) return 0;  // overlong
  if (first == 0xed && second > 0x9f) return 0;  // surrogate
  if (first == 0xf0 && second < 0x90) return 0;  // overlong
  if (first == 0xf4 && second > 0x8f) return 0;  // above U+10FFFF
  return length;
}

}  // namespace

size_t valid_utf8(std::string_view bytes) {
  size_t valid = 0;
  while (valid < bytes.size()) {
    const size_t length = character_length(bytes.substr(valid));
    if (length == 0) break;
    valid += length;
  }
  return valid;
}

}  // namespace wmtp
