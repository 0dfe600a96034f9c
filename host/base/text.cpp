#include "base/text.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <ctime>
#include <sstream>

#include "base/utf8.hpp"

namespace wmtp {
namespace {

// Insertions, deletions, replacements and swaps of neighbours count one each.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<size_t>> table(a.size() + 1, std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) table[i][0] = i;
  for (size_t j = 0; j <= b.size(); ++j) table[0][j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = table[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, replaced});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  }
  return table[a.size()][b.size()];
}

std::string in_lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = 'A' <= c && c <= 'Z' ? char(c - 'A' + 'a') : c;
  return lower;
}

std::string digits_of(std::string_view text) {
  std::string digits;
  for (const char c : text)
    if ('0' <= c && c <= '9') digits += c;
  return digits;
}

}  // namespace

std::string nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  // A second wrong letter of five is another word.
  const size_t limit = name.size() <= 5 ? 1 : name.size() <= 8 ? 2 : 3;
  const std::string wanted = in_lower_case(name), number = digits_of(name);
  size_t best = limit + 1;
  std::string nearest, longer_name;
  for (const std::string& candidate : candidates) {
    const std::string other = in_lower_case(candidate), its_number = digits_of(candidate);
    if (!number.empty() && !its_number.empty() && number != its_number) continue;
    // "warmup" for "warmup_steps" is not a typo, but more likely than a candidate with two typos.
    const bool begins = other.starts_with(wanted) || wanted.starts_with(other);
    if (longer_name.empty() && std::min(name.size(), candidate.size()) >= 3 && begins) longer_name = candidate;
    const size_t longer = std::max(candidate.size(), name.size());
    if (longer - std::min(candidate.size(), name.size()) > limit) continue;
    // One letter is a large part of a short word: "gpu" is not a typo for "cpu", but "rl" is one for "lr".
    if (name.size() <= 3 && !name.empty() && other.find(wanted.front()) == other.npos) continue;
    const size_t distance = edit_distance(wanted, other);
    if (distance < best && distance < longer) {
      best = distance;
      nearest = candidate;
    }
  }
  return best <= 1 || longer_name.empty() ? nearest : longer_name;
}

size_t shown_length(std::string_view text) {
  size_t length = 0;
  for (char c : text) length += !is_continuation(c);
  return length;
}

std::string truncate_text(std::string_view text, size_t most) {
  if (shown_length(text) <= most) return std::string(text);
  size_t characters = 0, end = 0;
  while (end < text.size() && (is_continuation(text[end]) || ++characters < most)) ++end;
  return std::string(text.substr(0, end)) + "…";
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of("\r\n \t");
  if (end == std::string::npos) return "";
  const size_t start = text.find_last_of('\n', end) + 1;  // npos + 1: no line break before it
  return text.substr(start, end + 1 - start);
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string text = "[";
  for (const int64_t length : shape) text += (text.size() > 1 ? "," : "") + std::to_string(length);
  return text + "]";
}

std::string join_names(const std::vector<std::string>& names) {
  std::string text;
  for (size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += names[i];
  }
  return text;
}

std::vector<std::string> split_search_path(const std::string& path) {
  std::vector<std::string> folders;
  std::istringstream parts(path);
  for (std::string folder; std::getline(parts, folder, ':');)
    if (!folder.empty()) folders.push_back(folder);
  return folders;
}

std::string with_thousands(int64_t number) {
  const std::string digits = std::to_string(number);
  std::string text;
  for (size_t i = 0; i < digits.size(); ++i) {
    const bool group_ends = i > 0 && digits[i - 1] != '-' && (digits.size() - i) % 3 == 0;
    if (group_ends) text += ',';
    text += digits[i];
  }
  return text;
}

std::string human_bytes(int64_t bytes) {
  static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double amount = double(bytes);
  size_t unit = 0;
  // 1023.95 would be printed as 1024.0.
  while (std::abs(amount) >= (unit == 0 ? 1024.0 : 1023.95) && unit + 1 < std::size(units)) {
    amount /= 1024;
    ++unit;
  }
  return printed("%.*f", unit == 0 ? 0 : 1, amount) + " " + units[unit];
}

std::string human_seconds(double seconds) {
  if (!std::isfinite(seconds) || seconds > 1e12) return "?";
  if (seconds < 0) return std::string("-").append(human_seconds(-seconds));
  if (seconds < 9.95) return printed("%.1f", seconds) + "s";
  const auto whole = int64_t(std::llround(seconds));
  if (whole < 60) return std::to_string(whole) + "s";
  const auto two_digits = [](int64_t number) { return printed("%02d", int(number)); };
  if (whole < 3600) return std::to_string(whole / 60) + "m " + two_digits(whole % 60) + "s";
  return std::to_string(whole / 3600) + "h " + two_digits(whole % 3600 / 60) + "m";
}

std::string human_whole_seconds(double seconds) {
  if (seconds < 1) return "under 1s";
  return seconds < 60 ? printed("%.0fs", seconds) : human_seconds(seconds);
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string printed(const char* format, ...) {
  va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  std::string text(size_t(std::vsnprintf(nullptr, 0, format, arguments)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(arguments);
  va_end(again);
  return text;
}

std::string counted(int64_t number, const std::string& noun, const std::string& ending) {
  return with_thousands(number) + " " + noun + (number == 1 ? "" : ending);
}

std::string to_hex(std::span<const uint8_t> bytes) {
  constexpr char digits[] = "0123456789abcdef";
  std::string text;
  for (const uint8_t byte : bytes) text += {digits[byte >> 4], digits[byte & 15]};
  return text;
}

std::string printable(std::string_view name) {
  constexpr size_t limit = 120;
  std::string text = "\"";
  for (const char c : name.substr(0, character_start(name, limit))) {
    const auto byte = uint8_t(c);
    const bool is_control = byte < 0x20 || byte == 0x7f;
    text += is_control ? "\\x" + to_hex({&byte, 1}) : std::string(1, c);
  }
  return text + (name.size() > limit ? "…\"" : "\"");
}

std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string shortest_digits(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

}  // namespace wmtp
