#include "experiment/load/sweep.hpp"

#include <algorithm>
#include <cctype>
#include <map>

#include "base/shell_text.hpp"
#include "base/text.hpp"
#include "experiment/load/document.hpp"
#include "experiment/toml/value_rule.hpp"

namespace wmtp {
namespace {

struct Setting {
  std::string key;
  const Node* value;
  TomlPosition position;  ///< of the key
  bool names_runs;        ///< the names of the member's runs contain it
};
/// Values of keys that are set together.
using Choice = std::vector<Setting>;

struct Axis {
  std::string table;  ///< "[sweep]" or "[[sweep.members]]"
  std::vector<Choice> choices;
  std::string title(const Setting& setting) const { return table + " " + setting.key; }
};

/// Runs that differ in their seed share a name; a name that is set needs no addition.
bool names_runs(const std::string& key) { return key != "seed" && key != "name"; }

/// Whether a key is the other one, or inside it, so that setting one changes the other.
bool overlap(const std::string& a, const std::string& b) {
  return (a + ".").starts_with(b + ".") || b.starts_with(a + ".");
}

/// As the values of a key: 1 and 1.0 are the same number.
bool is_equal(const Node& a, const Node& b) {
  const auto is_number = [](const Node& one) {
    return one.kind == Node::Kind::integer || one.kind == Node::Kind::number;
  };
  const auto is_equal_entry = [](const Entry& one, const Entry& other) {
    return one.key == other.key && is_equal(one.value, other.value);
  };
  if (a.kind != b.kind) {
    const auto number = [](const Node& one) {
      return one.kind == Node::Kind::integer ? double(one.integer) : one.number;
    };
    return is_number(a) && is_number(b) && number(a) == number(b);
  }
  return a.flag == b.flag && a.integer == b.integer && a.number == b.number && a.text == b.text &&
         std::ranges::equal(a.items, b.items, is_equal) &&
         std::ranges::is_permutation(a.entries, b.entries, is_equal_entry);
}
bool is_equal_setting(const Setting& a, const Setting& b) { return a.key == b.key && is_equal(*a.value, *b.value); }

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

  /// Refuses what one axis would set and another one replace.
  void check_axes() {
    for (size_t later = 1; later < axes_.size(); ++later)
      for (size_t earlier = 0; earlier < later; ++earlier)
        for (const Setting& setting : settings_of(axes_[later]))
          for (const Setting& other : settings_of(axes_[earlier]))
            if (overlap(setting.key, other.key))
              diagnostics_.add(setting.position,
                               axes_[later].title(setting) + ": " + axes_[earlier].title(other) + " at " +
                                   diagnostics_.origin_text(other.position) +
                                   " sets it too, so that one of the two values would have no effect",
                               "list its values in one of these places");
  }

  /// Refuses values of --set, which are in `root`, that every member or some would replace.
  void check_overrides(const Node& root) {
    for (const Axis& axis : axes_)
      for (const Setting& setting : settings_of(axis)) {
        const Entry* const found = entry_at(root, setting.key);
        const Entry* const overridden = found ? first_override(*found) : nullptr;
        if (!overridden) continue;
        const bool is_list = axis.table == "[sweep]" && overridden == found;
        diagnostics_.add(overridden->position,
                         axis.title(setting) + " at " + diagnostics_.origin_text(setting.position) +
                             " varies this key, so that members would not have the value of --set",
                         (is_list ? "to replace the list: --set " +
                                        shell_quoted("sweep." + setting.key + "=[" + toml_of(overridden->value) + "]") +
                                        "; or change the file"
                                  : "change it there"));
      }
  }

  /// All combinations, the first axis varying slowest.
  std::vector<SweepMember> combinations(TomlPosition position) {
    std::vector<Choice> all{{}};
    for (const auto& [table, choices] : axes_) {
      if (all.size() * choices.size() > max_sweep_members) {
        diagnostics_.add(position, "[sweep] has more than " + with_thousands(int64_t(max_sweep_members)) + " members",
                         "shorten its lists");
        return {};
      }
      std::vector<Choice> longer;
      for (const Choice& before : all)
        for (const Choice& choice : choices) {
          longer.push_back(before);
          longer.back().insert(longer.back().end(), choice.begin(), choice.end());
        }
      all = std::move(longer);
    }
    std::vector<SweepMember> found;
    for (const Choice& choice : all) found.push_back(member_of(choice));
    number_equal_names(found);
    return found;
  }

 private:
  void list(const std::string& key, const Entry& entry) {
    if (entry.value.kind != Node::Kind::list || entry.value.items.empty()) {
      diagnostics_.add(entry.position, "[sweep] " + key + ": wanted a non-empty list of values",
                       "set a single value in the experiment itself");
      return;
    }
    Axis axis{"[sweep]", {}};
    for (const Node& value : entry.value.items) {
      Choice choice{{key, &value, entry.position, names_runs(key)}};
      if (value.kind == Node::Kind::table || value.kind == Node::Kind::time)
        diagnostics_.add(value.position, "[sweep] " + key + ": found a table or a time, which no key accepts");
      else if (find_equal(axis, choice))
        diagnostics_.add(value.position, "[sweep] " + key + ": found " + on_one_line(toml_of(value)) + " twice",
                         "remove one: members with equal values are one run, which would count twice");
      axis.choices.push_back(std::move(choice));
    }
    axes_.push_back(std::move(axis));
  }

  void members(const Entry& entry) {
    Axis axis{"[[sweep.members]]", {}};
    for (const Node& one : entry.value.items) {
      Choice choice;
      if (one.kind == Node::Kind::table) flatten("", one, choice);
      if (std::ranges::find(choice, "name", &Setting::key) != choice.end())
        for (Setting& setting : choice) setting.names_runs = false;
      if (choice.empty()) diagnostics_.add(one.position, "[[sweep.members]]: wanted a table with at least one key");
      if (const Choice* const other = find_equal(axis, choice); other && !choice.empty())
        diagnostics_.add(one.position,
                         "[[sweep.members]]: found the values of the table at " +
                             diagnostics_.origin_text(other->front().position) + " again",
                         "remove one: members with equal values are one run, which would count twice");
      axis.choices.push_back(std::move(choice));
    }
    if (axis.choices.empty()) diagnostics_.add(entry.position, "[sweep] members: wanted [[sweep.members]] tables");
    axes_.push_back(std::move(axis));
  }

  static void flatten(const std::string& path, const Node& table, Choice& choice) {
    for (const Entry& entry : table.entries) {
      const std::string key = path.empty() ? entry.key : path + "." + entry.key;
      if (entry.value.kind == Node::Kind::table)
        flatten(key, entry.value, choice);
      else
        choice.push_back({key, &entry.value, entry.position, names_runs(key)});
    }
  }

  static const Choice* find_equal(const Axis& axis, const Choice& choice) {
    const auto found = std::ranges::find_if(axis.choices, [&](const Choice& other) {
      return std::ranges::is_permutation(choice, other, is_equal_setting);
    });
    return found == axis.choices.end() ? nullptr : &*found;
  }

  /// The first of each key.
  static Choice settings_of(const Axis& axis) {
    Choice found;
    for (const Choice& choice : axis.choices)
      for (const Setting& setting : choice)
        if (std::ranges::find(found, setting.key, &Setting::key) == found.end()) found.push_back(setting);
    return found;
  }

  /// The entry itself or one inside it; null if no --set states it.
  const Entry* first_override(const Entry& entry) const {
    if (diagnostics_.is_override(entry.position)) return &entry;
    for (const Entry& inner : entry.value.entries)
      if (const Entry* const found = first_override(inner)) return found;
    return nullptr;
  }

  static SweepMember member_of(const Choice& choice) {
    SweepMember member;
    for (const auto& [key, value, position, is_in_name] : choice) {
      member.overrides.push_back(key + "=" + toml_of(*value));
      if (is_in_name)
        member.suffix += "-" + name_part(key.substr(key.rfind('.') + 1)) + "-" + name_part(toml_of(*value));
    }
    return member;
  }

  /// Runs of one name count as seeds of one experiment. Names lack what no name may contain, such as the sign in
  /// "ce > 1" and "ce < 1".
  static void number_equal_names(std::vector<SweepMember>& members) {
    std::map<std::string, std::vector<std::string>> settings_by_name;
    for (SweepMember& member : members) {
      std::string name, settings;
      for (const std::string& change : member.overrides) {
        if (change.starts_with("name=")) name = change;
        if (!change.starts_with("seed=")) settings += change + "\n";
      }
      std::vector<std::string>& known = settings_by_name[name + "\n" + member.suffix];
      const auto place = std::ranges::find(known, settings);
      if (place != known.begin()) member.suffix += "-" + std::to_string(place - known.begin() + 1);
      if (place == known.end()) known.push_back(settings);
    }
  }

  Diagnostics& diagnostics_;
  std::vector<Axis> axes_;
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
  reader.check_axes();
  reader.check_overrides(*document);
  std::vector<SweepMember> members = reader.combinations(sweep->position);
  diagnostics.raise();
  return members;
}

}  // namespace wmtp
