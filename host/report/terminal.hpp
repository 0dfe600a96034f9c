// Properties of the terminal behind a stream, and sanitizing of text for it.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>

namespace wmtp {

/// The terminal's columns, or 0 unless `out` is standard output on a terminal.
size_t terminal_columns(const std::ostream& out);

/// Whether block characters can be shown: a terminal with a UTF-8 locale.
bool shows_blocks(const std::ostream& out);

/// Replaces line breaks and other control characters with visible escapes, so that text from the log cannot control the
/// terminal.
std::string one_line(std::string_view text);

}  // namespace wmtp
