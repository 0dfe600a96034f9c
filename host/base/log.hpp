// Messages for people, on stderr, one line each; output for programs goes to stdout instead. Colour only when stderr is
// a terminal, NO_COLOR is unset or empty, and --no-color was not given. Thread-safe: lines of one process are not
// mixed.
#pragma once

#include <string_view>

namespace wmtp {

struct LogSettings {
  bool quiet = false;  ///< suppresses log_info
  bool color = true;   ///< false for --no-color
};

/// [before other threads start]
void configure_log(const LogSettings& settings);
LogSettings log_settings();

void log_info(std::string_view message);     ///< without a prefix
void log_warning(std::string_view message);  ///< "warning: message"
void log_error(std::string_view message);    ///< "error: message"

/// The error that ends the program: like log_error, but a message of several lines has no prefix, because each line
/// then begins with its own file:line:column, which editors recognise.
void log_failure(std::string_view message);

/// Whether stderr is a terminal with colour and NO_COLOR is not set.
bool stderr_takes_color();

}  // namespace wmtp
