// See toml_limits.hpp. The depth is found by a scan that knows strings and comments and nothing else of TOML; text that
// misleads it (an open string) is refused by toml++ at that very place, before what the scan missed.
#include "core/toml/toml_limits.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/text.hpp"
#include "core/toml/toml_source.hpp"

namespace wmtp {
namespace {

TomlPlace place_at(int source, std::string_view text, size_t offset) {
  TomlPlace place{source, 1, 1};
  for (size_t i = 0; i < offset; ++i) {
    if (text[i] == '\n') {
      ++place.line;
      place.column = 1;
    } else if (!is_continuation(text[i])) {
      ++place.column;
    }
  }
  return place;
}

// Bytes of the character that starts at `at`, or 0 when they are no UTF-8 (overlong and surrogate forms are none).
size_t character_length(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const unsigned first = byte(at);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
  if (first < 0xC2 || first > 0xF4) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(at + i) & 0xC0) != 0x80) return 0;
  }
  const unsigned second = byte(at + 1);
  const bool overlong = (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
  const bool outside = (first == 0xED && second > 0x9F) || (first == 0xF4 && second > 0x8F);
  return overlong || outside ? 0 : length;
}

// The end of the string that starts at `at`; a string on one line ends with the line at the latest.
size_t skip_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view triple = quote == '"' ? "\"\"\"" : "'''";
  const bool several_lines = text.substr(at, 3) == triple;
  size_t i = at + (several_lines ? 3 : 1);
  for (; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (several_lines ? text.substr(i, 3) == triple : text[i] == quote || text[i] == '\n') {
      break;
    }
  }
  if (!several_lines) return std::min(i + 1, text.size());
  i = std::min(i + 3, text.size());
  // The content itself may end with one or two quotes.
  for (int more = 0; more < 2 && i < text.size() && text[i] == quote; ++more) ++i;
  return i;
}

// The first byte that lies deeper than the limit, or npos.
size_t too_deep_at(std::string_view text) {
  std::vector<int> around;
  int base = 0, dots = 0;
  for (size_t i = 0; i < text.size();) {
    const char byte = text[i];
    if (byte == '"' || byte == '\'') {
      i = skip_string(text, i);
      continue;
    }
    if (byte == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (byte == '.') {
      ++dots;
    } else if (byte == '{' || byte == '[') {
      around.push_back(base);
      base += dots + 1;
      dots = 0;
    } else if ((byte == '}' || byte == ']') && !around.empty()) {
      base = around.back();
      around.pop_back();
      dots = 0;
    } else if (byte == ',' || byte == '\n') {
      dots = 0;
    }
    if (base + dots >= max_depth) return i;
    ++i;
  }
  return std::string_view::npos;
}

}  // namespace

bool within_limits(int source, const std::string& text, Diagnostics& diagnostics) {
  for (size_t at = 0; at < text.size();) {
    const size_t length = character_length(text, at);
    if (length == 0 || text[at] == '\0') {
      diagnostics.add(place_at(source, text, at),
                      "byte " + std::to_string(at) + (length == 0 ? " is no valid UTF-8" : " is a NUL") +
                          "; wanted a text in UTF-8",
                      "save the file as UTF-8 text");
      return false;
    }
    at += length;
  }
  const size_t deep = too_deep_at(text);
  if (deep == std::string_view::npos) return true;
  diagnostics.add(place_at(source, text, deep),
                  "found keys nested more than " + std::to_string(max_depth) + " deep, wanted at most " +
                      std::to_string(max_depth) + " parts in a dotted key",
                  "no key of an experiment has more than three parts");
  return false;
}

}  // namespace wmtp
