// Formatting of names, numbers and units for people, and parsing of numbers.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp {

/// The candidate nearest to `name` by edit distance, or "" if none is close enough to be a typo.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// Whether this is a continuation byte of a UTF-8 character.
inline bool is_continuation(char byte) { return (uint8_t(byte) & 0xc0) == 0x80; }

/// Number of characters (UTF-8 code points).
size_t shown_length(std::string_view text);

/// At most `most` characters, the last one an ellipsis if the text was cut.
std::string truncate_text(std::string_view text, size_t most);

std::string first_line(const std::string& text);

/// The last line that is not blank, without the space after it; "" if there is none.
std::string last_line(const std::string& text);

/// "[4,8]"
std::string shape_text(std::span<const int64_t> shape);

/// "a, b and c"
std::string join_names(const std::vector<std::string>& names);

/// The folders of a search path like PATH. Empty ones, which would mean the current folder, are left out: code is
/// loaded only from folders that somebody named.
std::vector<std::string> split_search_path(const std::string& path);

/// 1234567 -> "1,234,567"
std::string with_thousands(int64_t number);

/// 1536 -> "1.5 KiB"
std::string human_bytes(int64_t bytes);

/// 75.2 -> "1m 15s"
std::string human_seconds(double seconds);
/// Of a duration between two whole seconds: "6s", "under 1s".
std::string human_whole_seconds(double seconds);

/// Now as ISO-8601 UTC, "2026-01-31T12:00:00Z".
std::string utc_now();

/// Nanoseconds since 1970.
int64_t now_ns();

/// printf into a string. For files that include LibTorch, whose headers contain another version of fmt.
[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...);

/// "1 rank", "1,200 steps". The plural of `noun` ends in `ending`.
std::string counted(int64_t number, const std::string& noun, const std::string& ending = "s");

/// Two lower-case hexadecimal digits for each byte.
std::string to_hex(std::span<const uint8_t> bytes);

/// Parses the whole text as a decimal number; nullopt for other text and for numbers out of T's range.
template <class T = int64_t>
std::optional<T> parsed_number(std::string_view text) {
  T number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

/// An untrusted name for a message: in quotes, with control characters escaped, truncated to 120 bytes.
std::string printable(std::string_view name);

/// A field of CSV (RFC 4180).
std::string csv_field(const std::string& text);

/// The fewest digits that parse back to the same number.
std::string shortest_digits(double number);

}  // namespace wmtp
