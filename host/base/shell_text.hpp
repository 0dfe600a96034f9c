// Words of a command that a message prints, to be pasted into a shell.
#pragma once

#include <string>

namespace wmtp {

/// `word` as one word of a POSIX shell: unchanged if it is plain, else in single quotes. Control characters and bytes
/// that are not UTF-8, which cannot be pasted, are escaped as bash and zsh read them ($'\n').
std::string shell_quoted(const std::string& word);

/// The same for a path that a program reads as an argument: one that begins with a dash, which would be an option,
/// begins with ./ instead.
std::string shell_path(const std::string& path);

}  // namespace wmtp
