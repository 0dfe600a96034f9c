// Whether bytes are UTF-8 (RFC 3629: no overlong forms, no surrogates, nothing above U+10FFFF).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace wmtp {

/// Length of the longest beginning of `bytes` that is UTF-8 and ends with a character; bytes.size() when all of it is.
size_t valid_utf8(std::string_view bytes);

/// The text with U+FFFD in place of each broken part, as Python's decode(errors="replace") gives it: a byte that cannot
/// begin a character, or the beginning of one as far as it could have gone on (Unicode 15, 3.9, maximal subparts).
std::string repaired_utf8(std::string_view bytes);

/// Length of `bytes` without a beginning of a character at its end that more bytes could make whole.
size_t without_open_end(std::string_view bytes);

/// Where the character begins that byte `at` of a UTF-8 text belongs to; text.size() for that.
size_t start_of_character(std::string_view text, size_t at);

/// Where to cut a text that goes on: before its last newline, else before its last character.
size_t cut_of(std::string_view text);

}  // namespace wmtp
