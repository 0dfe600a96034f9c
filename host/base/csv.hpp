// Fields of CSV (RFC 4180), and numbers with all their digits.
#pragma once

#include <charconv>
#include <string>

namespace wmtp {

inline std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

/// The fewest digits from which the same number is read.
inline std::string shortest_digits(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

}  // namespace wmtp
