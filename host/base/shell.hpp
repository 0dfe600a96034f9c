// Commands that a message prints, to be pasted into a shell.
#pragma once

#include <string>

namespace wmtp {

/// `text` as one word of a POSIX shell: unchanged if it needs no quotes.
std::string shell_quoted(const std::string& text);

}  // namespace wmtp
