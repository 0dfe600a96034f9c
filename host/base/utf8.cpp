#include "base/utf8.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {

namespace {

struct Start {
  size_t length;  ///< valid bytes that are present; at least 1
  size_t wanted;  ///< bytes of the complete character; 0 if none begins here
};

/// The character that starts here. Overlong forms, surrogates and values above U+10FFFF are invalid in their second
/// byte.
Start start_of(std::string_view bytes) {
  const auto at = [&](size_t i) { return uint8_t(bytes[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return {1, 1};
  if (first < 0xc2 || first > 0xf4) return {1, 0};
  const size_t wanted = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  size_t length = 1;
  for (; length < wanted && length < bytes.size(); ++length) {
    unsigned char lowest = 0x80, highest = 0xbf;
    if (length == 1 && first == 0xe0) lowest = 0xa0;
    if (length == 1 && first == 0xed) highest = 0x9f;
    if (length == 1 && first == 0xf0) lowest = 0x90;
    if (length == 1 && first == 0xf4) highest = 0x8f;
    if (at(length) < lowest || at(length) > highest) break;
  }
  return {length, wanted};
}

/// Length of the complete character that starts here, or 0.
size_t character_length(std::string_view bytes) {
  const Start start = start_of(bytes);
  return start.length == start.wanted ? start.length : 0;
}

}  // namespace

size_t valid_utf8_prefix(std::string_view bytes) {
  size_t valid = 0;
  while (valid < bytes.size()) {
    uint64_t eight = uint64_t{1} << 63;  // bytes of most texts are ASCII
    if (bytes.size() - valid >= sizeof eight) std::memcpy(&eight, bytes.data() + valid, sizeof eight);
    if ((eight & 0x8080808080808080) == 0) {
      valid += sizeof eight;
      continue;
    }
    const size_t length = character_length(bytes.substr(valid));
    if (length == 0) break;
    valid += length;
  }
  return valid;
}

std::string repaired_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const size_t valid = valid_utf8_prefix(bytes);
    text += bytes.substr(0, valid);
    bytes.remove_prefix(valid);
    if (bytes.empty()) break;
    text += "\xef\xbf\xbd";
    bytes.remove_prefix(start_of(bytes).length);
  }
  return text;
}

void check_is_utf8(std::string_view text, const std::string& what) {
  const size_t valid = valid_utf8_prefix(text);
  if (valid == text.size()) return;
  throw Error(ExitStatus::usage,
              what + " is " + printable(repaired_utf8(text)) +
                  printed(": found byte 0x%02x, wanted UTF-8; rename it, or choose another", uint8_t(text[valid])));
}

size_t complete_utf8_length(std::string_view bytes) {
  for (size_t length = 1; length <= std::min<size_t>(3, bytes.size()); ++length) {
    const Start start = start_of(bytes.substr(bytes.size() - length));
    if (start.length == length && start.wanted > length) return bytes.size() - length;
  }
  return bytes.size();
}

size_t character_start(std::string_view text, size_t at) {
  while (at > 0 && at < text.size() && is_continuation(text[at])) --at;
  return at;
}

size_t split_point(std::string_view text) {
  if (text.empty()) return 0;
  const size_t newline = text.rfind('\n');
  if (newline != std::string_view::npos && newline > 0) return newline;
  size_t cut = text.size() - 1;
  while (cut > text.size() - 4 && is_continuation(text[cut])) --cut;
  return cut;
}

}  // namespace wmtp
