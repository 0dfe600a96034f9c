#include "base/shell.hpp"

#include <cctype>
#include <string_view>

namespace wmtp {

std::string shell_quoted(const std::string& text) {
  bool is_plain = !text.empty() && text[0] != '-' && text[0] != '~';
  for (const char c : text)
    is_plain = is_plain && (std::isalnum(static_cast<unsigned char>(c)) ||
                            std::string_view("_@%+=:,./-~").find(c) != std::string_view::npos);
  if (is_plain) return text;
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

}  // namespace wmtp
