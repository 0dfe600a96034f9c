// The status line on stderr. On a terminal each status replaces the previous one and is cleared before other output;
// elsewhere each is an ordinary line. [any thread]
#pragma once

#include <string>

namespace wmtp {

/// Whether stderr is a terminal.
bool status_is_drawn();
void show_status(const std::string& text);
/// Ends the line, so that it stays visible.
void keep_status();

/// Clears the status line and prevents drawing it while this exists. For other output to stderr.
class StatusGap {
 public:
  StatusGap();
  ~StatusGap();
  StatusGap(const StatusGap&) = delete;
};

}  // namespace wmtp
