#include "io/seven_bit_text.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <set>
#include <utility>

#include "base/utf8.hpp"

namespace wmtp {
namespace {

using namespace std::string_view_literals;

constexpr size_t fewest_characters = 8;  // that are not ASCII
// Of UTF-7: many characters in different runs; many runs, or some that are frequent, of few characters each.
constexpr size_t fewest_in_utf_7 = 24, fewest_runs = 8, fewest_frequent_runs = 5;

/// What switches to other characters; a terminal's colours are other sequences.
std::string iso_2022(std::string_view start) {
  constexpr std::array shifts{std::pair("\x1b$)C"sv, "ISO-2022-KR"),     std::pair("\x1b$)A"sv, "ISO-2022-CN-EXT"),
                              std::pair("\x1b$)G"sv, "ISO-2022-CN-EXT"), std::pair("\x1b$)E"sv, "ISO-2022-CN-EXT"),
                              std::pair("\x1b$*H"sv, "ISO-2022-CN-EXT"), std::pair("\x1b$B"sv, "ISO-2022-JP-2"),
                              std::pair("\x1b$@"sv, "ISO-2022-JP-2"),    std::pair("\x1b$A"sv, "ISO-2022-JP-2"),
                              std::pair("\x1b$(C"sv, "ISO-2022-JP-2"),   std::pair("\x1b$(D"sv, "ISO-2022-JP-2"),
                              std::pair("\x1b(I"sv, "ISO-2022-JP-3"),    std::pair("\x1b$(O"sv, "ISO-2022-JP-3"),
                              std::pair("\x1b$(Q"sv, "ISO-2022-JP-3")};
  const auto found = std::ranges::find_if(shifts, [&](const auto& one) { return start.find(one.first) != start.npos; });
  return found == shifts.end() ? "" : found->second;
}

/// The first of the two bytes of a character of GB 2312, whose rows 10 to 15 are empty; the second.
bool begins_gb_character(char c) { return (c >= 0x21 && c <= 0x29) || (c >= 0x30 && c <= 0x77); }
bool ends_gb_character(char c) { return c >= 0x21 && c <= 0x7e; }

/// "~{" and "~}" enclose characters of two letters; another tilde is written "~~", or continues a line.
bool is_hz(std::string_view text) {
  size_t characters = 0, runs = 0;
  for (size_t at = text.find('~'); at < text.size(); at = text.find('~', at)) {
    if (at + 1 == text.size()) break;  // the rest was not read
    const char next = text[at + 1];
    at += 2;
    if (next == '~' || next == '\n') continue;
    if (next != '{') return false;
    const size_t before = characters;
    for (; at + 1 < text.size() && text.substr(at, 2) != "~}"; at += 2, ++characters)
      if (!begins_gb_character(text[at]) || !ends_gb_character(text[at + 1])) return false;
    if (characters == before && at + 1 < text.size()) return false;
    ++runs;
    at += 2;
  }
  return runs >= 2 && characters >= fewest_characters;
}

int base64_value(char c) {
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const size_t found = letters.find(c);
  return found == letters.npos ? -1 : int(found);
}

/// Of the writing of a language, or a sign that is common in such text; no private or unassigned one.
bool is_of_a_script(uint32_t code) {
  constexpr std::array<std::pair<uint32_t, uint32_t>, 8> blocks{{{0xa0, 0x052f},    // Latin, Greek, Cyrillic
                                                                 {0x0531, 0x1fff},  // from Armenian to Greek Extended
                                                                 {0x2010, 0x2122},
                                                                 {0x3000, 0x30ff},  // kana
                                                                 {0x4e00, 0x9fff},  // Han
                                                                 {0xac00, 0xd7a3},  // Hangul
                                                                 {0xff01, 0xffee},
                                                                 {0x1f300, 0x1faff}}};
  return std::ranges::any_of(blocks, [&](const auto& block) { return code >= block.first && code <= block.second; });
}

/// The number of characters in a run of base64 of UTF-16; -1 if it is none. `is_cut`: its end was not read.
int characters_in(std::string_view run, bool is_cut) {
  uint32_t bits = 0, high = 0;
  int filled = 0, characters = 0;
  for (const char c : run) {
    bits = bits << 6 | uint32_t(base64_value(c));
    filled += 6;
    if (filled < 16) continue;
    filled -= 16;
    const uint32_t unit = bits >> filled & 0xffff;
    const bool is_high = unit >= 0xd800 && unit < 0xdc00, is_low = unit >= 0xdc00 && unit < 0xe000;
    if (is_low != (high != 0)) return -1;
    const uint32_t code = is_low ? 0x10000 + ((high & 0x3ff) << 10 | (unit & 0x3ff)) : unit;
    high = is_high ? unit : 0;
    if (is_high) continue;
    const bool is_ascii = code == '\t' || code == '\n' || code == '\r' || (code >= ' ' && code < 0x7f);
    if (!is_ascii && !is_of_a_script(code)) return -1;
    characters += is_ascii ? 0 : 1;
  }
  if (is_cut) return characters;
  return high == 0 && filled < 6 && (bits & ((1u << filled) - 1)) == 0 ? characters : -1;
}

/// "+" begins base64, which "-" ends, or a sign that is none of base64; "+-" is a plus. It allows neither a tilde nor a
/// backslash.
bool is_utf_7(std::string_view text) {
  if (text.starts_with("+/v8") || text.starts_with("+/v9") || text.starts_with("+/v+") || text.starts_with("+/v/"))
    return true;  // its byte order mark
  if (text.find_first_of("~\\") != text.npos) return false;
  if (std::ranges::any_of(text, [](char c) { return uint8_t(c) >= 0x80; })) return false;
  std::set<std::string_view> runs;
  size_t characters = 0, different = 0;
  for (size_t at = text.find('+'); at < text.size(); at = text.find('+', at)) {
    size_t end = ++at;
    while (end < text.size() && base64_value(text[end]) >= 0) ++end;
    const std::string_view run = text.substr(at, end - at);
    at = end;
    if (run.empty() && end < text.size() && text[end] != '-') return false;
    const int found = characters_in(run, end == text.size());
    if (found < 0) return false;
    const bool has_letter = std::ranges::any_of(run, [](char c) { return c < '0' || c > '9'; });
    if (found == 0 || !has_letter) continue;
    if (runs.insert(run).second) different += size_t(found);
    characters += size_t(found);
  }
  return different >= fewest_in_utf_7 || runs.size() >= fewest_runs ||
         (characters >= fewest_in_utf_7 && runs.size() >= fewest_frequent_runs);
}

int hexadecimal_value(char c) {
  constexpr std::string_view letters = "0123456789ABCDEF";
  const size_t found = letters.find(c);
  return found == letters.npos ? -1 : int(found);
}

/// "=" begins the two letters of a byte, or an end of a line that is none; here the bytes above ASCII are UTF-8.
bool is_quoted_printable(std::string_view text) {
  size_t characters = 0;
  std::string bytes;  // above ASCII, that follow one another
  for (size_t at = text.find('='); at < text.size(); at = text.find('=', at)) {
    if (at + 2 >= text.size()) break;  // the rest was not read, or is the end of the last line
    const bool is_soft_end = text[at + 1] == '\n' || text.substr(at + 1, 2) == "\r\n";
    const int high = hexadecimal_value(text[at + 1]), low = hexadecimal_value(text[at + 2]);
    if (!is_soft_end && (high < 0 || low < 0)) return false;
    if (!is_soft_end && high >= 8) bytes += char(high << 4 | low);
    at += text[at + 1] == '\n' ? 2 : 3;
    if (at < text.size() && text[at] == '=' && (is_soft_end || high >= 8)) continue;
    if (valid_utf8_prefix(bytes) != bytes.size() && at < text.size()) return false;
    characters += size_t(std::ranges::count_if(bytes, [](char c) { return (uint8_t(c) & 0xc0) == 0xc0; }));
    bytes.clear();
  }
  return characters >= fewest_characters;
}

}  // namespace

std::string seven_bit_encoding(std::string_view start) {
  if (std::string found = iso_2022(start); !found.empty()) return found;
  return is_hz(start) ? "HZ" : is_utf_7(start) ? "UTF-7" : is_quoted_printable(start) ? "quoted-printable" : "";
}

}  // namespace wmtp
