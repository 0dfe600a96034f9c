// See toml_source.hpp.
//
// 1. size, UTF-8, NUL and depth are checked on the bytes
// 2. toml++ parses; its first syntax error (a duplicate key is one) ends the file
// 3. the tables are copied into Nodes, keys in the order in which they stand
#include "core/toml/toml_source.hpp"

// toml++ asserts that some bytes cannot come, and where they do come from a user it goes on to a clean syntax error: a
// debug build must not abort on a file that a release build refuses.
#define TOML_ASSERT(condition) static_cast<void>(0)
#include <toml++/toml.h>

#include <algorithm>
#include <fstream>
#include <tuple>
#include <variant>

#include "base/files.hpp"
#include "core/toml/toml_limits.hpp"

namespace wmtp {
namespace {

TomlPlace place_of(int source, const toml::source_region& region) {
  return {source, static_cast<int>(region.begin.line), static_cast<int>(region.begin.column)};
}

Node copy(int source, const toml::node& from) {
  Node to;
  to.place = place_of(source, from.source());
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
        to.entries.push_back({std::string(key.str()), place_of(source, key.source()), copy(source, value)});
      }
      std::sort(to.entries.begin(), to.entries.end(), [](const Entry& a, const Entry& b) {
        return std::tie(a.place.line, a.place.column) < std::tie(b.place.line, b.place.column);
      });
      break;
    default:
      to.kind = Node::Kind::time;
      break;
  }
  return to;
}

struct SyntaxError {
  TomlPlace place;
  std::string message;
};

std::variant<Node, SyntaxError> parse(int source, const std::string& text) {
  try {
    return copy(source, toml::parse(std::string_view(text)));
  } catch (const toml::parse_error& error) {
    std::string message(error.description());
    if (!message.empty()) message[0] = static_cast<char>(std::tolower(static_cast<unsigned char>(message[0])));
    return SyntaxError{place_of(source, error.source()), "no valid TOML: " + message};
  }
}

bool is_bare(char byte) { return std::isalnum(static_cast<unsigned char>(byte)) || byte == '_' || byte == '-'; }

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

// Moves the only entry of `from`, a chain of tables down to the value, over `to`.
void lay(Node& to, Node&& from, Diagnostics& diagnostics) {
  Entry& laid = from.entries.front();
  Entry* there = to.find(laid.key);
  const bool last = laid.value.kind != Node::Kind::table || laid.value.entries.size() != 1 ||
                    laid.value.place.column != laid.place.column;
  if (!there) {
    to.entries.push_back(std::move(laid));
  } else if (last) {
    *there = std::move(laid);
  } else if (there->value.kind != Node::Kind::table) {
    diagnostics.add(laid.place, quote(laid.key) + " is no table, so nothing can be set in it");
  } else {
    lay(there->value, std::move(laid.value), diagnostics);
  }
}

std::string trimmed(const std::string& text) {
  const size_t first = text.find_first_not_of(' ');
  return first == std::string::npos ? "" : text.substr(first, text.find_last_not_of(' ') - first + 1);
}

}  // namespace

std::string read_source(const std::filesystem::path& file, const std::string& shown_as) {
  std::error_code problem;
  if (!is_there(file))
    throw Error(ExitStatus::usage, shown_as + ": no such file; give the path of an experiment (.toml)");
  check_is_file(file, ExitStatus::usage);
  std::ifstream stream(file, std::ios::binary);
  std::string text(max_source_bytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(stream.gcount()));
  if (!stream.is_open() || stream.bad())
    throw Error(ExitStatus::usage, shown_as + ": cannot be read; check its rights");
  if (text.size() > max_source_bytes) {
    const auto size = std::filesystem::file_size(file, problem);
    throw Error(ExitStatus::usage, shown_as + ": found " + std::to_string(problem ? text.size() : size) +
                                       " bytes, wanted at most " + std::to_string(max_source_bytes) +
                                       "; an experiment is a short text, data belongs in files that it names");
  }
  return text;
}

std::optional<Node> parse_source(int source, const std::string& text, Diagnostics& diagnostics) {
  if (!within_limits(source, text, diagnostics)) return std::nullopt;
  auto parsed = parse(source, text);
  if (auto* document = std::get_if<Node>(&parsed)) return std::move(*document);
  const auto& error = std::get<SyntaxError>(parsed);
  diagnostics.add(error.place, error.message, "the rest of the file is checked once this is mended");
  return std::nullopt;
}

void lay_override(Node& root, const std::string& text, Diagnostics& diagnostics) {
  const int source = diagnostics.add_override(text);
  // As many spaces as "--set " has letters: columns then point into the text that is shown.
  const std::string indent(6, ' ');
  const TomlPlace start{source, 1, 7};
  if (text.size() > max_source_bytes) {
    diagnostics.add(
        start, "found " + std::to_string(text.size()) + " bytes, wanted at most " + std::to_string(max_source_bytes));
    return;
  }
  if (!within_limits(source, indent + text, diagnostics)) return;
  const size_t equals = text.find('=');
  const std::string key = trimmed(text.substr(0, equals));
  const std::string value = equals == std::string::npos ? "" : trimmed(text.substr(equals + 1));
  if (value.empty()) {
    diagnostics.add(start, "found no value, wanted key=value", "for example --set train.steps=100");
  } else if (!is_dotted_key(key)) {
    diagnostics.add(start, "found the key " + quote(key) + ", wanted words joined by dots", "for example train.steps");
  } else if (text.find_first_of("\n\r") != std::string::npos) {
    diagnostics.add(start, "found several lines, wanted one key=value", "give --set once for each key");
  } else {
    auto parsed = parse(source, indent + text);
    const bool word = std::holds_alternative<SyntaxError>(parsed) && is_bare_word(value);
    if (word) parsed = parse(source, indent + text.substr(0, equals + 1) + '"' + value + '"');
    if (auto* document = std::get_if<Node>(&parsed)) {
      lay(root, std::move(*document), diagnostics);
    } else {
      const auto& error = std::get<SyntaxError>(parsed);
      diagnostics.add(error.place, error.message, "the value is TOML: text with spaces or signs stands in quotes");
    }
  }
}

}  // namespace wmtp
