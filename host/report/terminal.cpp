#include "report/terminal.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <iostream>

#include "base/environment.hpp"
#include "base/text.hpp"

namespace wmtp {
size_t terminal_columns(const std::ostream& out) {
  if (out.rdbuf() != std::cout.rdbuf() || !::isatty(STDOUT_FILENO)) return 0;
  winsize size{};
  return ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

bool shows_blocks(const std::ostream& out) {
  if (terminal_columns(out) == 0) return false;
  for (const char* name : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    const std::string locale = environment_value(name);
    if (locale.empty()) continue;
    return locale.find("UTF-8") != locale.npos || locale.find("utf8") != locale.npos;
  }
  return false;
}

std::string one_line(std::string_view text) {
  std::string line;
  for (char c : text) {
    const auto byte = uint8_t(c);
    if (c == '\n') {
      line += "\\n";
    } else if (c == '\t') {
      line += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      line += printed("\\x%02x", byte);
    } else {
      line += c;
    }
  }
  return line;
}

}  // namespace wmtp
