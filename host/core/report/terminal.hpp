// What the terminal behind a stream can show.
#pragma once

#include <cstddef>
#include <ostream>
#include <string>
#include <string_view>

namespace wmtp {

/// Columns of the terminal, or 0 when `out` is not standard output or that is no terminal.
size_t terminal_columns(const std::ostream& out);

/// Whether block characters may be used: a terminal with a UTF-8 locale.
bool shows_blocks(const std::ostream& out);

/// One line of text: line breaks and other control characters become visible escapes, so that no text from the log can
/// steer the terminal.
std::string one_line(std::string_view text);

/// Characters (UTF-8 code points) of a text.
size_t shown_length(std::string_view text);

/// At most `most` characters, the last one an ellipsis when something was cut.
std::string cut_to(std::string_view text, size_t most);

}  // namespace wmtp
