// The status line on stderr. On a terminal each status replaces the previous one, fits into one row and is cleared
// before other output; elsewhere, and with TERM=dumb, each is an ordinary line. [any thread]
#pragma once

#include <string>

namespace wmtp {

/// Whether stderr is a terminal that can erase a line.
bool can_draw_status();
void show_status(const std::string& text);
/// Ends the line, so that it stays visible.
void end_status_line();

/// The beginning of `text`, with an ellipsis if it was cut, that takes at most so many columns of a terminal: two for a
/// wide character. Invalid UTF-8 is replaced, control characters are question marks.
std::string truncate_status(const std::string& text, size_t columns);

/// Clears the status line and prevents drawing it while this exists. For other output to stderr.
class StatusPause {
 public:
  StatusPause();
  ~StatusPause();
  StatusPause(const StatusPause&) = delete;
};

}  // namespace wmtp
