#include "base/shell_text.hpp"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "base/text.hpp"
#include "base/utf8.hpp"

namespace wmtp {
namespace {

bool is_control(char c) { return uint8_t(c) < 0x20 || c == 0x7f; }

bool is_plain(char c) {
  return std::isalnum(uint8_t(c)) || std::string_view("_@%+=:,./-").find(c) != std::string_view::npos;
}

/// In octal, because any hexadecimal digit after "\x1b" would belong to it.
std::string escaped(const std::string& word) {
  std::string text = "$'";
  for (size_t at = 0; at < word.size();) {
    const size_t valid = valid_utf8_prefix(std::string_view(word).substr(at));
    for (const size_t end = at + valid; at < end; ++at) {
      const char c = word[at];
      text += is_control(c)            ? printed("\\%03o", uint8_t(c))
              : c == '\'' || c == '\\' ? std::string("\\") + c
                                       : std::string(1, c);
    }
    if (at < word.size()) text += printed("\\%03o", uint8_t(word[at++]));
  }
  return text + "'";
}

}  // namespace

std::string shell_quoted(const std::string& word) {
  if (!word.empty() && std::all_of(word.begin(), word.end(), is_plain)) return word;
  if (valid_utf8_prefix(word) != word.size() || std::any_of(word.begin(), word.end(), is_control)) return escaped(word);
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string shell_path(const std::string& path) { return shell_quoted(path.starts_with('-') ? "./" + path : path); }

}  // namespace wmtp
