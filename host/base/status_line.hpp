// The line that says what a process is at, on stderr. On a terminal there is one, drawn in place of the one before,
// which gives way to whatever else is said; elsewhere each is a line like others. [any thread]
#pragma once

#include <string>

namespace wmtp {

/// Whether it is drawn over, rather than written below.
bool status_is_drawn();
void show_status(const std::string& text);
/// Leaves what is drawn where it stands.
void keep_status();

/// For whoever writes something else to stderr: takes the line away, and keeps it away for as long as this lives.
class StatusGap {
 public:
  StatusGap();
  ~StatusGap();
  StatusGap(const StatusGap&) = delete;
};

}  // namespace wmtp
