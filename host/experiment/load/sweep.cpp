#include "experiment/load/sweep.hpp"

#include <algorithm>
#include <cctype>

#include "base/text.hpp"
#include "experiment/load/document.hpp"
#include "experiment/toml/value_rule.hpp"

namespace wmtp {
namespace {

struct Setting {
  std::string key;
  const Node* value;
  bool names_runs;  ///< the names of the member's runs contain it
};
/// Values of keys that are set together.
using Choice = std::vector<Setting>;

/// Runs that differ in their seed share a name; a name that is set needs no addition.
bool names_runs(const std::string& key) { return key != "seed" && key != "name"; }

class Reader {
 public:
  explicit Reader(Diagnostics& diagnostics) : diagnostics_(diagnostics) {}

  void lists(const std::string& path, const Node& table) {
    for (const Entry& entry : table.entries) {
      const std::string key = path.empty() ? entry.key : path + "." + entry.key;
      if (key == "members")
        members(entry);
      else if (entry.value.kind == Node::Kind::table)
        lists(key, entry.value);
      else
        list(key, entry);
    }
  }

  /// All combinations, the first axis varying slowest.
  std::vector<SweepMember> combinations(TomlPosition position) {
    std::vector<Choice> all{{}};
    for (const std::vector<Choice>& axis : axes_) {
      if (all.size() * axis.size() > max_sweep_members) {
        diagnostics_.add(position, "[sweep] has more than " + with_thousands(int64_t(max_sweep_members)) + " members",
                         "shorten its lists");
        return {};
      }
      std::vector<Choice> longer;
      for (const Choice& before : all)
        for (const Choice& choice : axis) {
          longer.push_back(before);
          longer.back().insert(longer.back().end(), choice.begin(), choice.end());
        }
      all = std::move(longer);
    }
    std::vector<SweepMember> found;
    for (const Choice& choice : all) found.push_back(member_of(choice));
    return found;
  }

 private:
  void list(const std::string& key, const Entry& entry) {
    if (entry.value.kind != Node::Kind::list || entry.value.items.empty()) {
      diagnostics_.add(entry.position, "[sweep] " + key + ": wanted a non-empty list of values",
                       "set a single value in the experiment itself");
      return;
    }
    std::vector<Choice> axis;
    for (const Node& value : entry.value.items) {
      if (value.kind == Node::Kind::table || value.kind == Node::Kind::time)
        diagnostics_.add(value.position, "[sweep] " + key + ": found a table or a time, which no key accepts");
      axis.push_back({{key, &value, names_runs(key)}});
    }
    axes_.push_back(std::move(axis));
  }

  void members(const Entry& entry) {
    std::vector<Choice> axis;
    for (const Node& one : entry.value.items) {
      Choice choice;
      if (one.kind == Node::Kind::table) flatten("", one, choice);
      if (std::ranges::find(choice, "name", &Setting::key) != choice.end())
        for (Setting& setting : choice) setting.names_runs = false;
      if (choice.empty()) diagnostics_.add(one.position, "[[sweep.members]]: wanted a table with at least one key");
      axis.push_back(std::move(choice));
    }
    if (axis.empty()) diagnostics_.add(entry.position, "[sweep] members: wanted [[sweep.members]] tables");
    axes_.push_back(std::move(axis));
  }

  static void flatten(const std::string& path, const Node& table, Choice& choice) {
    for (const Entry& entry : table.entries) {
      const std::string key = path.empty() ? entry.key : path + "." + entry.key;
      if (entry.value.kind == Node::Kind::table)
        flatten(key, entry.value, choice);
      else
        choice.push_back({key, &entry.value, names_runs(key)});
    }
  }

  static SweepMember member_of(const Choice& choice) {
    SweepMember member;
    for (const auto& [key, value, is_in_name] : choice) {
      member.overrides.push_back(key + "=" + toml_of(*value));
      if (is_in_name)
        member.suffix += "-" + name_part(key.substr(key.rfind('.') + 1)) + "-" + name_part(toml_of(*value));
    }
    return member;
  }

  Diagnostics& diagnostics_;
  std::vector<std::vector<Choice>> axes_;
};

}  // namespace

std::string toml_of(const Node& node) {
  switch (node.kind) {
    case Node::Kind::flag:
      return toml_text(Value(node.flag));
    case Node::Kind::integer:
      return toml_text(Value(node.integer));
    case Node::Kind::number:
      return toml_text(Value(node.number));
    case Node::Kind::text:
      return toml_text(Value(node.text));
    default:
      break;
  }
  std::string text;
  for (const Node& item : node.items) text += (text.empty() ? "" : ", ") + toml_of(item);
  if (node.kind == Node::Kind::list) return "[" + text + "]";
  for (const Entry& entry : node.entries)
    text += (text.empty() ? "" : ", ") + toml_text(Value(entry.key)) + " = " + toml_of(entry.value);
  return "{" + text + "}";
}

std::string name_part(const std::string& text) {
  std::string name;
  for (const char c : text)
    if (std::isalnum(uint8_t(c)) || c == '.' || c == '_' || c == '-') name += c;
  return name;
}

std::vector<SweepMember> read_sweep(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                                    SourceTexts& texts) {
  Diagnostics diagnostics;
  const std::optional<Node> document = read_document(file, overrides, texts, diagnostics).root;
  diagnostics.raise();
  const Entry* const sweep = document->find("sweep");
  if (!sweep) return {};
  Reader reader(diagnostics);
  if (sweep->value.kind == Node::Kind::table)
    reader.lists("", sweep->value);
  else
    diagnostics.add(sweep->position, "\"sweep\" is a table: wanted [sweep] followed by its keys");
  std::vector<SweepMember> members = reader.combinations(sweep->position);
  diagnostics.raise();
  return members;
}

}  // namespace wmtp
