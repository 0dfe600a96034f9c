// Small text functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace wmtp {

/// The candidate nearest to `name` by edit distance, or "" when none is near enough to be a typing mistake.
std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates);

/// Whether this is a byte of a UTF-8 character other than its first.
inline bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xc0) == 0x80; }

/// "a, b and c"
std::string join_names(const std::vector<std::string>& names);

/// 1234567 -> "1,234,567"
std::string with_thousands(int64_t number);

/// 1536 -> "1.5 KiB"
std::string human_bytes(int64_t bytes);

/// 75.2 -> "1m 15s"
std::string human_seconds(double seconds);

/// Now as ISO-8601 UTC, "2026-01-31T12:00:00Z".
std::string utc_now();

/// Nanoseconds since 1970.
int64_t now_ns();

/// printf into a string. For files that include LibTorch, whose headers contain another version of fmt.
[[gnu::format(printf, 1, 2)]] std::string printed(const char* format, ...);

}  // namespace wmtp
