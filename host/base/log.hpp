// Messages for people, on stderr, one line each; what a program reads goes to stdout and never through here.
// Quiet leaves out `log_info`. Colour only when stderr is a terminal, NO_COLOR is unset or empty, and it was not
// refused. Threads may call it at the same time: lines are never mixed within one process.
#pragma once

#include <string_view>

namespace wmtp {

struct LogSettings {
  bool quiet = false;
  bool color = true;  ///< false for --no-color
};

/// [before start] Without it: not quiet, colour where it is allowed.
void configure_log(const LogSettings& settings);
LogSettings log_settings();

void log_info(std::string_view message);     ///< the message as it is
void log_warning(std::string_view message);  ///< "warning: message"
void log_error(std::string_view message);    ///< "error: message"

/// What ends the program: the message as log_error, or, where it lists several mistakes, as it is: each line then begins
/// with its own file:line:column, which editors recognise.
void log_failure(std::string_view message);

/// Whether stderr takes colour and NO_COLOR does not forbid it.
bool stderr_takes_color();

}  // namespace wmtp
