// 1. Size, UTF-8, NUL and depth are checked on the bytes.
// 2. toml++ parses; only its first syntax error (duplicate keys count) is reported for the file.
// 3. The tables are copied into Nodes, keys in file order.
#include "experiment/toml/toml_source.hpp"

// toml++ asserts that some bytes cannot occur, but then reports a proper syntax error when they do. A debug build must
// not abort on a file that a release build refuses.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <string_view>
#include <tuple>
#include <variant>

#include "base/files.hpp"
#include "base/installation.hpp"
#include "base/shell_text.hpp"
#include "base/utf8.hpp"
#include "experiment/toml/toml_position.hpp"

namespace wmtp {
namespace {

constexpr int max_depth = 64;  ///< parts of a dotted key, including inline tables and arrays around it

/// The end of the string that starts at `at`; a single-line string ends at the line break at the latest.
size_t skip_string(std::string_view text, size_t at) {
  const char quote = text[at];
  const std::string_view triple = quote == '"' ? "\"\"\"" : "'''";
  const bool is_multiline = text.substr(at, 3) == triple;
  size_t i = at + (is_multiline ? 3 : 1);
  for (; i < text.size(); ++i) {
    if (quote == '"' && text[i] == '\\') {
      ++i;
    } else if (is_multiline ? text.substr(i, 3) == triple : text[i] == quote || text[i] == '\n') {
      break;
    }
  }
  if (!is_multiline) return std::min(i + 1, text.size());
  i = std::min(i + 3, text.size());
  // The content may end with one or two quotes itself.
  for (int more = 0; more < 2 && i < text.size() && text[i] == quote; ++more) ++i;
  return i;
}

/// The first byte that is nested deeper than the limit, or npos. The scan only understands strings and comments; text
/// that misleads it (an unterminated string) is refused by toml++ at that place, before what the scan missed.
size_t first_too_deep(std::string_view text) {
  std::vector<int> enclosing;
  int base = 0, dots = 0;
  for (size_t i = 0; i < text.size();) {
    const char byte = text[i];
    if (byte == '"' || byte == '\'') {
      i = skip_string(text, i);
      continue;
    }
    if (byte == '#') {
      i = std::min(text.find('\n', i), text.size());
      continue;
    }
    if (byte == '.') {
      ++dots;
    } else if (byte == '{' || byte == '[') {
      enclosing.push_back(base);
      base += dots + 1;
      dots = 0;
    } else if ((byte == '}' || byte == ']') && !enclosing.empty()) {
      base = enclosing.back();
      enclosing.pop_back();
      dots = 0;
    } else if (byte == ',' || byte == '\n') {
      dots = 0;
    }
    if (base + dots >= max_depth) return i;
    ++i;
  }
  return std::string_view::npos;
}

/// toml++'s stack use grows with the depth of keys, so it must not see text that violates these limits.
bool within_limits(int source, const std::string& text, Diagnostics& diagnostics) {
  const size_t valid = valid_utf8_prefix(text), nul = text.find('\0');
  if (const size_t bad = std::min(valid, nul); bad < text.size()) {
    diagnostics.add(
        byte_position(source, text, bad),
        "byte " + std::to_string(bad) + (bad == nul ? " is NUL" : " is not valid UTF-8") + ", wanted UTF-8 text",
        "save the file as UTF-8 text");
    return false;
  }
  const size_t deep = first_too_deep(text);
  if (deep == std::string_view::npos) return true;
  diagnostics.add(byte_position(source, text, deep),
                  "found keys nested more than " + std::to_string(max_depth) + " deep, wanted at most " +
                      std::to_string(max_depth) + " parts in a dotted key",
                  "no key of an experiment has more than three parts");
  return false;
}

TomlPosition region_start(int source, const toml::source_region& region) {
  return {source, int(region.begin.line), int(region.begin.column)};
}

Node copy(int source, const toml::node& from) {
  Node to;
  to.position = region_start(source, from.source());
  switch (from.type()) {
    case toml::node_type::boolean:
      to.kind = Node::Kind::flag;
      to.flag = from.as_boolean()->get();
      break;
    case toml::node_type::integer:
      to.kind = Node::Kind::integer;
      to.integer = from.as_integer()->get();
      break;
    case toml::node_type::floating_point:
      to.kind = Node::Kind::number;
      to.number = from.as_floating_point()->get();
      break;
    case toml::node_type::string:
      to.kind = Node::Kind::text;
      to.text = from.as_string()->get();
      break;
    case toml::node_type::array:
      to.kind = Node::Kind::list;
      for (const toml::node& item : *from.as_array()) to.items.push_back(copy(source, item));
      break;
    case toml::node_type::table:
      for (auto&& [key, value] : *from.as_table()) {
        to.entries.push_back({std::string(key.str()), region_start(source, key.source()), copy(source, value)});
      }
      std::sort(to.entries.begin(), to.entries.end(), [](const Entry& a, const Entry& b) {
        return std::tie(a.position.line, a.position.column) < std::tie(b.position.line, b.position.column);
      });
      break;
    default:
      to.kind = Node::Kind::time;
      break;
  }
  return to;
}

struct SyntaxError {
  TomlPosition position;
  std::string message, remedy;  ///< the latter "" or with a semicolon at its end
};

/// What to do about a mistake, by what toml++ says of it: it takes a word without quotes for the beginning of a value.
std::string remedy_of(std::string_view mistake) {
  const auto says = [&](std::string_view words) { return mistake.find(words) != std::string_view::npos; };
  if (says("parsing boolean") || says("expected 'nan'") || says("expected 'inf'") || says("value-terminator") ||
      says("determine value type"))
    return "write text in quotes, and true and false in lower case; ";
  if (says("parsing string: unescaped control") || says("parsing literal string: control"))
    return "close the string on its line; ";
  if (says("expected '=', saw ':'")) return "TOML writes key = value; ";
  return "";
}

std::variant<Node, SyntaxError> parse(int source, const std::string& text) {
  try {
    return copy(source, toml::parse(std::string_view(text)));
  } catch (const toml::parse_error& error) {
    std::string message(error.description());
    if (!message.empty()) message[0] = char(std::tolower(uint8_t(message[0])));
    if (const size_t line_end = message.find('\n'); line_end != std::string::npos) message.replace(line_end, 1, "\\n");
    return SyntaxError{region_start(source, error.source()), "invalid TOML: " + message, remedy_of(message)};
  }
}

bool is_bare(char byte) { return std::isalnum(uint8_t(byte)) || byte == '_' || byte == '-'; }

bool is_dotted_key(const std::string& key) {
  bool part_open = false;
  for (const char byte : key) {
    if (byte == '.' ? !part_open : !is_bare(byte)) return false;
    part_open = byte != '.';
  }
  return part_open;
}

bool is_bare_word(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), [](char byte) {
    return is_bare(byte) || std::string_view("./:*~+@?").find(byte) != std::string_view::npos;
  });
}

/// Merges the only entry of `from`, a chain of tables leading to the value, into `to`.
void merge(Node& to, Node&& from, Diagnostics& diagnostics) {
  Entry& added = from.entries.front();
  Entry* existing = to.find(added.key);
  const bool is_value = added.value.kind != Node::Kind::table || added.value.entries.size() != 1 ||
                        added.value.position.column != added.position.column;
  if (!existing) {
    to.entries.push_back(std::move(added));
  } else if (is_value) {
    *existing = std::move(added);
  } else if (existing->value.kind != Node::Kind::table) {
    diagnostics.add(added.position, quote(added.key) + " is not a table, so no key can be set in it");
  } else {
    merge(existing->value, std::move(added.value), diagnostics);
  }
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

/// The path below a folder `experiments` that it names, else the file's name.
std::filesystem::path place_among_experiments(const std::filesystem::path& file) {
  const auto folder = std::find(file.begin(), file.end(), "experiments");
  if (folder == file.end()) return file.filename();
  return std::accumulate(std::next(folder), file.end(), std::filesystem::path(), std::divides());
}

std::string advice_for_missing(const std::filesystem::path& file, const std::string& shown_as) {
  if (shown_as.find('=') != std::string::npos)
    return "if it is a key of the experiment: --set " + shell_quoted(shown_as);
  if (file.extension() == ".toml" && is_there(experiments_folder() / place_among_experiments(file)))
    return "`wmtp-host experiments --copy experiments` copies the shipped experiments here";
  return "pass the path of an experiment (.toml)";
}

}  // namespace

std::string read_source(const std::filesystem::path& file, const std::string& shown_as) {
  std::error_code problem;
  if (!is_there(file))
    throw Error(ExitStatus::usage, shown_as + ": no such file; " + advice_for_missing(file, shown_as));
  if (std::filesystem::is_directory(file, problem))
    throw Error(ExitStatus::usage, shown_as +
                                       " is a folder, wanted an experiment (.toml); to continue a run, repeat "
                                       "its command with --resume; for a folder of data, `wmtp-host init`");
  check_is_file(file, ExitStatus::usage);
  std::ifstream stream(file, std::ios::binary);
  std::string text(max_source_bytes + 1, '\0');
  stream.read(text.data(), std::streamsize(text.size()));
  text.resize(size_t(stream.gcount()));
  if (!stream.is_open() || stream.bad())
    throw Error(ExitStatus::usage, shown_as + ": cannot be read; check its permissions");
  if (text.size() > max_source_bytes) {
    const auto size = std::filesystem::file_size(file, problem);
    throw Error(ExitStatus::usage,
                shown_as + ": found " + std::to_string(problem ? text.size() : size) + " bytes, wanted at most " +
                    std::to_string(max_source_bytes) +
                    "; an experiment file is short, and names the files of its data; `wmtp-host init " +
                    shell_quoted(shown_as) + "` writes one for this file");
  }
  return text;
}

std::optional<Node> parse_source(int source, const std::string& text, Diagnostics& diagnostics) {
  if (!within_limits(source, text, diagnostics)) return std::nullopt;
  auto parsed = parse(source, text);
  if (auto* document = std::get_if<Node>(&parsed)) return std::move(*document);
  const auto& error = std::get<SyntaxError>(parsed);
  diagnostics.add(error.position, error.message, error.remedy + "the rest of the file is checked once this is fixed");
  return std::nullopt;
}

std::string overridden_key(const std::string& text) { return trimmed(text.substr(0, text.find('='))); }

void apply_override(Node& root, const std::string& text, Diagnostics& diagnostics) {
  const int source = diagnostics.add_override(text);
  // The width of "--set ", so that columns match the printed text.
  const std::string indent(6, ' ');
  const TomlPosition start{source, 1, 7};
  if (text.size() > max_source_bytes) {
    diagnostics.add(
        start, "found " + std::to_string(text.size()) + " bytes, wanted at most " + std::to_string(max_source_bytes));
    return;
  }
  if (!within_limits(source, indent + text, diagnostics)) return;
  const size_t equals = text.find('=');
  const std::string key = overridden_key(text);
  const std::string value = equals == std::string::npos ? "" : trimmed(text.substr(equals + 1));
  if (value.empty()) {
    diagnostics.add(start, "found no value, wanted key=value", "for example --set train.steps=100");
  } else if (!is_dotted_key(key)) {
    diagnostics.add(start, "found the key " + quote(key) + ", wanted names joined by dots", "for example train.steps");
  } else if (text.find_first_of("\n\r") != std::string::npos) {
    diagnostics.add(start, "found several lines, wanted one key=value", "pass --set once for each key");
  } else {
    auto parsed = parse(source, indent + text);
    const bool is_word = std::holds_alternative<SyntaxError>(parsed) && is_bare_word(value);
    if (is_word) parsed = parse(source, indent + text.substr(0, equals + 1) + '"' + value + '"');
    if (auto* document = std::get_if<Node>(&parsed)) {
      merge(root, std::move(*document), diagnostics);
    } else {
      const auto& error = std::get<SyntaxError>(parsed);
      diagnostics.add(error.position, error.message,
                      "the value is TOML: put text with spaces or special characters in quotes");
    }
  }
}

}  // namespace wmtp
