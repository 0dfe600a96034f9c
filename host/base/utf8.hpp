// UTF-8 validation and repair (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace wmtp {

/// Length of the longest prefix of complete UTF-8 characters.
size_t valid_utf8_prefix(std::string_view bytes);

/// Replaces each invalid sequence with U+FFFD, like Python's decode(errors="replace"): a byte that cannot begin a
/// character, or the longest valid beginning of one (Unicode 15, 3.9, maximal subparts).
std::string repaired_utf8(std::string_view bytes);

/// Error(usage) unless `text`, an argument or a path that is named `what` in the message, is UTF-8. For all that
/// becomes JSON or TOML, which contain nothing else.
void check_is_utf8(std::string_view text, const std::string& what);

/// Length of `bytes` without a trailing incomplete character that further bytes could complete.
size_t complete_utf8_length(std::string_view bytes);

/// The offset of the first byte of the character that contains byte `at` of a UTF-8 text; text.size() for text.size().
size_t character_start(std::string_view text, size_t at);

/// Where to split a text that will continue: before its last newline, otherwise before its last character.
size_t split_point(std::string_view text);

}  // namespace wmtp
