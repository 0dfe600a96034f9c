#include "io/data_as_text.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace wmtp {
namespace {

constexpr size_t fewest_of_base64 = 512, fewest_of_hexadecimal = 512;  // signs
constexpr size_t bytes_of_uuencoded_line = 61;
constexpr size_t fewest_lines = 16, shortest_offset = 6, bytes_of_a_dumped_line = 16;
constexpr size_t fewest_numbers = 64, fewest_values = 16, most_digits = 10;
constexpr double smallest_of_ids = 100;
constexpr size_t fewest_rows = 2, longest_name = 64;

using Row = std::vector<std::string>;

bool is_between(char c, char first, char last) { return c >= first && c <= last; }
bool is_digit(char c) { return is_between(c, '0', '9'); }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

/// The next part of `text` that is in one piece, without `separators`, which it removes from `text`; "" at its end.
std::string_view take_word(std::string_view& text, std::string_view separators) {
  text.remove_prefix(std::min(text.find_first_not_of(separators), text.size()));
  const std::string_view word = text.substr(0, text.find_first_of(separators));
  text.remove_prefix(word.size());
  return word;
}

void remove_mark(std::string_view& text) {
  constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
}

std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  text.remove_prefix(std::min(line.size() + 1, text.size()));
  return line;
}

/// A first line without digits, or what Python writes before an array.
void remove_caption(std::string_view& text) {
  for (const std::string_view written : {"tensor(", "array("})
    if (text.starts_with(written)) text.remove_prefix(written.size());
  std::string_view rest = text;
  const std::string_view line = take_line(rest);
  if (line.size() <= longest_name && std::ranges::none_of(line, is_digit)) text = rest;
}

/// The digits with which `text` begins, which it removes.
std::string_view take_digits(std::string_view& text) {
  const auto end = std::ranges::find_if_not(text, is_digit);
  const std::string_view digits = text.substr(0, size_t(end - text.begin()));
  text.remove_prefix(digits.size());
  return digits;
}

struct Number {
  double size = 0;
  bool is_whole = true, is_negative = false;
};

/// As programs print numbers: -12, 0.5, 1e-05.
std::optional<Number> number_of(std::string_view word) {
  const bool is_negative = word.starts_with('-');
  if (is_negative) word.remove_prefix(1);
  const std::string_view whole = take_digits(word);
  if (whole.empty() || whole.size() > most_digits || (whole.size() > 1 && whole[0] == '0')) return std::nullopt;
  const bool is_whole = word.empty();
  if (word.starts_with('.')) {
    word.remove_prefix(1);
    take_digits(word);
  }
  if (word.starts_with('e') || word.starts_with('E')) {
    word.remove_prefix(1);
    if (word.starts_with('-') || word.starts_with('+')) word.remove_prefix(1);
    if (take_digits(word).empty()) return std::nullopt;
  }
  if (!word.empty()) return std::nullopt;
  return Number{std::stod(std::string(whole)), is_whole, is_negative};
}

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

/// The rows of CSV by RFC 4180, without blank lines; none if a quote is in a wrong place. Of a file that `is_cut` the
/// last row is left out.
struct Rows {
  std::vector<Row> rows;
  size_t values = 0, quoted = 0;
  bool has_spaces = false;  ///< after separators, as in sentences
};
std::optional<Rows> rows_of(std::string_view text, char separator, bool is_cut) {
  Rows found;
  Row row;
  while (!text.empty()) {
    std::string value;
    ++found.values;
    if (text.starts_with('"')) {
      ++found.quoted;
      for (;;) {
        const size_t quote = text.find('"', 1);
        if (quote == text.npos) return is_cut && !found.rows.empty() ? std::optional(found) : std::nullopt;
        value += text.substr(1, quote - 1);
        text.remove_prefix(quote + 1);
        if (!text.starts_with('"')) break;
        value += '"';
      }
    } else {
      const size_t end = std::min(text.find_first_of(std::string{separator, '\n'}), text.size());
      value = text.substr(0, end);
      text.remove_prefix(end);
    }
    if (text.starts_with('\r')) text.remove_prefix(1);
    row.emplace_back(without_blanks(value));
    if (!text.empty() && text.front() == separator) {
      text.remove_prefix(1);
      found.has_spaces |= text.starts_with(' ');
      if (text.empty() && !is_cut) row.emplace_back();
      continue;
    }
    if (!text.empty() && text.front() != '\n') return std::nullopt;
    if (text.empty() && is_cut) break;
    if (row.size() > 1 || !row.front().empty()) found.rows.push_back(row);
    row.clear();
    text.remove_prefix(std::min<size_t>(1, text.size()));
  }
  return found;
}

bool is_name(const std::string& text) {
  constexpr std::string_view signs = " _-./()#%";
  const auto is_letter = [](char c) {
    return is_between(c, 'a', 'z') || is_between(c, 'A', 'Z') || c == '_' || (uint8_t(c) & 0x80) != 0;
  };
  return !text.empty() && text.size() <= longest_name && is_letter(text[0]) &&
         std::ranges::all_of(text, [&](char c) { return is_letter(c) || is_digit(c) || signs.find(c) != signs.npos; });
}

bool is_common_name(std::string name) {
  constexpr std::array names{"answer",   "author", "body",    "category", "class",       "completion", "content",
                             "context",  "date",   "id",      "input",    "instruction", "label",      "lang",
                             "language", "output", "prompt",  "question", "rating",      "response",   "score",
                             "sentence", "source", "summary", "target",   "text",        "title",      "url"};
  for (char& c : name) c = is_between(c, 'A', 'Z') ? char(c - 'A' + 'a') : c;
  return std::ranges::find(names, name) != names.end();
}

bool is_of_numbers(const Rows& table, size_t column, size_t first_row) {
  return std::all_of(table.rows.begin() + int64_t(first_row), table.rows.end(),
                     [&](const Row& row) { return number_of(row[column]).has_value(); });
}

/// Every value is quoted; or many rows of at least three values have a column of numbers and one of sentences, and no
/// separator is one of a sentence.
bool is_table_without_header(const Rows& table) {
  const size_t columns = table.rows.front().size();
  if (table.rows.size() < fewest_lines || columns < 2) return false;
  if (table.quoted == table.values) return true;
  bool has_numbers = false, has_sentences = false;
  for (size_t column = 0; column < columns; ++column) {
    const auto spaced =
        std::ranges::count_if(table.rows, [&](const Row& row) { return row[column].find(' ') != std::string::npos; });
    has_sentences |= size_t(spaced) * 2 >= table.rows.size();
    has_numbers |= is_of_numbers(table, column, 0);
  }
  return columns > 2 && !table.has_spaces && has_numbers && has_sentences;
}

bool is_table(const Rows& table) {
  if (table.rows.size() <= fewest_rows) return false;
  const Row& header = table.rows.front();
  if (header.size() < 2) return false;
  const auto have = [&](auto compare) {
    return std::ranges::all_of(table.rows, [&](const Row& row) { return compare(row.size(), header.size()); });
  };
  const bool are_equal = have(std::equal_to());
  if (are_equal && is_table_without_header(table)) return true;
  if (!are_equal && !have(std::greater_equal())) return false;
  const bool is_numbered = is_of_numbers(table, 0, 1), has_index = header[0].empty() && is_numbered;  // by pandas
  if (!std::all_of(header.begin() + (has_index ? 1 : 0), header.end(), is_name)) return false;
  if (std::set<std::string>(header.begin(), header.end()).size() != header.size()) return false;
  const bool is_common = std::ranges::any_of(header, is_common_name);
  if (!are_equal) return is_numbered && is_common;  // separators in values that are not quoted
  if (has_index || table.quoted > 0 || is_common) return true;
  for (size_t column = 0; column < header.size(); ++column)
    if (is_of_numbers(table, column, 1)) return true;
  return false;
}

}  // namespace

bool is_base64(std::string_view text) {
  std::array<size_t, 3> counts{};  // of capitals, small letters and digits
  size_t all = 0;
  while (!text.empty()) {
    const size_t newline = text.find('\n');
    const bool is_cut = newline == text.npos;
    std::string_view line = text.substr(0, newline);
    text.remove_prefix(is_cut ? text.size() : newline + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.starts_with("-----") && line.ends_with("-----")) continue;  // around keys and signatures
    const size_t length = line.size();
    for (int i = 0; i < 2 && line.ends_with('='); ++i) line.remove_suffix(1);
    if (!is_cut && length % 4 != 0) return false;
    for (const char c : line) {
      const bool is_capital = is_between(c, 'A', 'Z'), is_small = is_between(c, 'a', 'z');
      if (is_capital || is_small || is_digit(c))
        ++counts[is_capital ? 0 : is_small ? 1 : 2];
      else if (c != '+' && c != '/' && c != '-' && c != '_')
        return false;
    }
    all += line.size();
  }
  return all >= fewest_of_base64 && std::ranges::all_of(counts, [&](size_t count) { return count * 20 >= all; });
}

bool is_uuencoded(std::string_view text) {
  constexpr std::string_view begin = "begin ", mode = "644 ";
  const std::string_view first = take_line(text), second = without_blanks(take_line(text));
  const bool has_mode = first.size() > begin.size() + mode.size() && first.starts_with(begin) &&
                        std::ranges::all_of(first.substr(begin.size(), 3), is_digit);
  return has_mode && second.starts_with('M') && second.size() == bytes_of_uuencoded_line;
}

bool is_hexadecimal(std::string_view text) {
  size_t digits = 0, small = 0, capitals = 0;
  for (std::string_view word; !(word = take_word(text, " \t\r\n,")).empty();) {
    if (word.starts_with("0x") || word.starts_with("0X")) word.remove_prefix(2);
    if (word.size() % 2 != 0 && !text.empty()) return false;
    for (const char c : word) {
      const bool is_small = is_between(c, 'a', 'f'), is_capital = is_between(c, 'A', 'F');
      if (!is_digit(c) && !is_small && !is_capital) return false;
      ++(is_small ? small : is_capital ? capitals : digits);
    }
  }
  const size_t letters = small + capitals, all = digits + letters;
  const bool is_of_one_case = small == 0 || capitals == 0;
  return all >= fewest_of_hexadecimal && is_of_one_case && letters * 20 >= all && digits * 20 >= all;
}

bool is_dump(std::string_view text) {
  std::vector<size_t> offsets;
  while (!text.empty()) {
    const std::string_view line = take_line(text);
    if (text.empty() && !offsets.empty()) break;  // it may be cut
    if (line == "*") continue;                    // lines that are equal to the one before
    const std::string_view offset = line.substr(0, line.find_first_of(": \r"));
    const bool is_hex = std::ranges::all_of(offset, [](char c) { return is_digit(c) || is_between(c, 'a', 'f'); });
    if (offset.size() < shortest_offset || offset.size() > 12 || !is_hex) return false;
    offsets.push_back(std::stoull(std::string(offset), nullptr, 16));
    if (offsets.size() > 1 && offsets.back() < offsets[offsets.size() - 2] + bytes_of_a_dumped_line) return false;
  }
  return offsets.size() >= fewest_lines && offsets[0] == 0;
}

NumbersFound find_number_list(std::string_view text) {
  constexpr std::string_view separators = " \t\r\n,;:|[]()";
  std::set<std::string_view> different;
  NumbersFound found;
  size_t all = 0;
  double largest = 0;
  bool are_whole = true;
  remove_mark(text);
  remove_caption(text);
  found.are_ids = text.find_first_of(":|\t") == text.npos;  // these enclose positions and labels
  for (std::string_view word; !(word = take_word(text, separators)).empty();) {
    if (text.empty() && all > 0) break;  // it may be cut
    const auto number = number_of(word);
    if (!number) return {};
    different.insert(word);
    are_whole &= number->is_whole;
    found.are_ids &= number->is_whole && !number->is_negative;
    largest = std::max(largest, number->size);
    ++all;
  }
  const bool are_many = all >= fewest_numbers && different.size() >= fewest_values;
  found.are_numbers = are_many && (largest >= smallest_of_ids || !are_whole);
  return found;
}

char table_separator(std::string_view start, bool is_cut) {
  std::string of_old_macs;
  std::string_view text = start;
  remove_mark(text);
  if (text.find('\n') == text.npos) {
    std::ranges::replace_copy(text, std::back_inserter(of_old_macs), '\r', '\n');
    text = of_old_macs;
  }
  for (std::string_view rest = text; text.starts_with('#') || text.starts_with("sep="); text = rest) take_line(rest);
  const std::string_view first = without_blanks(text), line = first.substr(0, first.find('\n'));
  for (const char separator : {',', '\t', ';', '|'}) {
    if (line.find(separator) == line.npos) continue;
    const auto rows = rows_of(text, separator, is_cut);
    if (rows && is_table(*rows)) return separator;
  }
  return '\0';
}

}  // namespace wmtp
