// A file may contain any characters; control characters must never reach the terminal.
#include "experiment/toml/diagnostics.hpp"

#include <algorithm>
#include <tuple>

#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr size_t max_width = 100;

/// Characters that move the cursor, colour the screen or change the writing direction.
bool is_terminal_control(const std::string& character) {
  const auto first = uint8_t(character[0]);
  if (character.size() == 1) return first < 0x20 || first >= 0x7F;
  const auto second = uint8_t(character[1]);
  if (first == 0xC2) return second < 0xA0;
  if (first != 0xE2 || character.size() < 3) return false;
  const auto third = uint8_t(character[2]);
  return (second == 0x80 && third >= 0xA8 && third <= 0xAE) || (second == 0x81 && third >= 0xA6 && third <= 0xA9);
}

/// One string for each code point, safe to print.
std::vector<std::string> printable(const std::string& text) {
  std::vector<std::string> characters;
  for (size_t at = 0; at < text.size();) {
    size_t end = at + 1;
    while (end < text.size() && is_continuation(text[end])) ++end;
    std::string character = text.substr(at, end - at);
    const bool is_invalid = is_continuation(character[0]) || character.size() > 4;
    if (character == "\t") character = " ";
    characters.push_back(is_invalid || is_terminal_control(character) ? "?" : character);
    at = end;
  }
  return characters;
}

std::string source_line(const std::string& text, int line) {
  size_t start = 0;
  for (int at = 1; at < line; ++at) {
    start = text.find('\n', start);
    if (start == std::string::npos) return "";
    ++start;
  }
  std::string found = text.substr(start, text.find('\n', start) - start);
  if (found.ends_with('\r')) found.pop_back();
  return found;
}

std::string join(const std::vector<std::string>& parts, size_t from, size_t to) {
  std::string text;
  for (size_t i = from; i < to; ++i) text += parts[i];
  return text;
}

}  // namespace

std::string quote(const std::string& text) {
  const auto characters = printable(text);
  const size_t length = std::min<size_t>(characters.size(), 60);
  std::string result = "\"";
  result += join(characters, 0, length);
  result += length < characters.size() ? "...\"" : "\"";
  return result;
}

std::string on_one_line(const std::string& text) {
  const auto characters = printable(text);
  return join(characters, 0, characters.size());
}

int Diagnostics::add_file(const std::string& name, const std::string& text) {
  sources_.push_back({name, text, true});
  return int(sources_.size()) - 1;
}

int Diagnostics::add_override(const std::string& text) {
  const std::string printed_text = "--set " + text;
  const auto characters = printable(printed_text);
  std::string label = join(characters, 0, std::min(characters.size(), max_width));
  if (characters.size() > max_width) label += "...";
  sources_.push_back({label, printed_text, false});
  return int(sources_.size()) - 1;
}

void Diagnostics::add(TomlPosition position, std::string message, std::string hint, ExitStatus status) {
  found_.push_back({position, std::move(message), std::move(hint), status});
}

std::string Diagnostics::print(const Found& found) const {
  const Source& source = sources_[size_t(found.position.source)];
  std::string text = source.label + ":";
  if (source.is_file) text += std::to_string(found.position.line) + ":" + std::to_string(found.position.column) + ":";
  const size_t line_end = found.message.find('\n');
  text += " " + found.message.substr(0, line_end) + "\n";

  const auto characters = printable(source_line(source.text, found.position.line));
  const auto caret = size_t(std::max(found.position.column, 1) - 1);
  if (!characters.empty()) {
    const size_t from = caret < max_width - 20 ? 0 : caret - max_width / 2;
    const size_t to = std::min(characters.size(), from + max_width);
    text += "    " + (from < to ? join(characters, from, to) : std::string()) + "\n";
    text += "    " + std::string(caret - from, ' ') + "^\n";
  }
  for (size_t at = line_end; at != std::string::npos;) {
    const size_t next = found.message.find('\n', at + 1);
    text += "  " + found.message.substr(at + 1, next - at - 1) + "\n";
    at = next;
  }
  if (!found.hint.empty()) text += "  " + found.hint + "\n";
  return text;
}

std::string Diagnostics::origin_text(TomlPosition position) const {
  const Source& source = sources_[size_t(position.source)];
  return source.is_file ? on_one_line(source.label) + ":" + std::to_string(position.line) : "command line";
}

void Diagnostics::raise() const {
  if (found_.empty()) return;
  std::vector<Found> ordered = found_;
  std::stable_sort(ordered.begin(), ordered.end(), [](const Found& a, const Found& b) {
    return std::tie(a.position.source, a.position.line, a.position.column) <
           std::tie(b.position.source, b.position.line, b.position.column);
  });
  std::string text;
  for (const Found& found : ordered) text += print(found);
  text.pop_back();
  const bool plugins_only = std::all_of(ordered.begin(), ordered.end(),
                                        [](const Found& found) { return found.status == ExitStatus::plugin; });
  throw Error(plugins_only ? ExitStatus::plugin : ExitStatus::usage, text);
}

}  // namespace wmtp
