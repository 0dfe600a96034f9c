#include "study/read_study.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <type_traits>

#include "base/text.hpp"
#include "experiment/load/document.hpp"
#include "experiment/load/sweep.hpp"
#include "experiment/toml/toml_source.hpp"
#include "experiment/toml/value_rule.hpp"

namespace wmtp {
namespace {

constexpr size_t longest_run_name = 64;

std::optional<Node> parsed(const std::filesystem::path& file, SourceTexts& texts, Diagnostics& diagnostics) {
  const std::string& text = texts.text(file);
  return parse_source(diagnostics.add_file(file.string(), text), text, diagnostics);
}

ValueRule text_rule() {
  ValueRule rule;
  rule.may_be_empty = false;
  return rule;
}

struct Condition {
  std::string name;
  std::vector<StudyChange> changes;
};

/// A member as the file states it, for every condition, or for those that it names.
struct GivenMember {
  StudyMember member;
  TomlPosition name_at;
  std::vector<std::string> conditions;
};

bool has_seed(const std::string& text) { return text.find("{seed}") != std::string::npos; }

class Reader {
 public:
  Reader(const std::filesystem::path& file, Diagnostics& diagnostics) : file_(file), diagnostics_(diagnostics) {
    study_.file = file;
    study_.name = file.stem().string();
  }

  Study read(const Node& document) {
    const Entry* const study = document.find("study");
    if (!study || study->value.kind != Node::Kind::table) {
      diagnostics_.add(study ? study->position : document.position, "found no table [study]",
                       "docs/studies.md shows the keys of a study; `wmtp-host run` trains an experiment");
      return study_;
    }
    known_keys(document, "", {"study"});
    table(*study);
    return study_;
  }

 private:
  void table(const Entry& study) {
    const Node& node = study.value;
    known_keys(node, "study",
               {"metric", "better", "also", "seeds", "stop_at", "pilot", "control", "set", "budgets", "conditions",
                "members", "tuning", "evaluations"});
    study_.metric = required_text(study, "metric", "the metric that decides, such as \"valid/loss\"");
    better(study);
    if (const Entry* const also = node.find("also")) {
      ValueRule rule = text_rule();
      rule.type = ValueType::texts;
      if (const auto found = check_value(also->value, rule, "[study] also", diagnostics_))
        study_.explored = std::get<std::vector<std::string>>(*found);
    }
    study_.seeds = seeds(study, "study", "seeds", true);
    study_.pilot_seeds = seeds(study, "study", "pilot", false);
    if (const Entry* const stops = node.find("stop_at")) read_stops(stops->value);
    if (const Entry* const set = node.find("set")) common_ = changes_in(set->value, "[study.set]");
    if (const Entry* const budgets = node.find("budgets")) read_budgets(*budgets);
    if (const Entry* const conditions = node.find("conditions")) read_conditions(*conditions);
    members(study);
    tuning(node);
    control(node);
    evaluations(node);
    check_tuning_data(node);
  }

  std::string place(TomlPosition position) const {
    return file_.string() + ":" + std::to_string(position.line) + ":" + std::to_string(position.column);
  }

  void known_keys(const Node& node, const std::string& table, const std::vector<std::string>& known) {
    for (const Entry& entry : node.entries) {
      if (std::ranges::find(known, entry.key) != known.end()) continue;
      const std::string nearest = nearest_name(entry.key, known);
      diagnostics_.add(entry.position, "unknown key " + quote(entry.key) + (table.empty() ? "" : " in [" + table + "]"),
                       !nearest.empty() ? "did you mean " + quote(nearest) + "?"
                       : table.empty()  ? "a study has only the table [study], and no experiment's keys outside"
                                        : "known keys: " + join_names(known));
    }
  }

  std::string text(const Node& node, const std::string& table, const char* key) {
    const Entry* const entry = node.find(key);
    if (!entry) return "";
    const auto found = check_value(entry->value, text_rule(), "[" + table + "] " + key, diagnostics_);
    return found ? std::get<std::string>(*found) : "";
  }

  std::string required_text(const Entry& study, const char* key, const std::string& wanted) {
    if (!study.value.find(key))
      diagnostics_.add(study.position, std::string("[study] lacks the key \"") + key + "\": " + wanted);
    return text(study.value, "study", key);
  }

  void better(const Entry& study) {
    const Entry* const entry = study.value.find("better");
    if (!entry) {
      diagnostics_.add(study.position,
                       "[study] lacks the key \"better\": which values of the metric are better, "
                       "\"lower\" or \"higher\"");
      return;
    }
    ValueRule rule;
    rule.choices = {"lower", "higher"};
    const auto found = check_value(entry->value, rule, "[study] better", diagnostics_);
    study_.lower_is_better = !found || std::get<std::string>(*found) == "lower";
  }

  /// `number` stays as it is if the table has no such key.
  template <class Number>
  void read_number(const Node& table, const std::string& name, const char* key, double least, double most,
                   Number& number) {
    const Entry* const entry = table.find(key);
    if (!entry) return;
    ValueRule rule;
    rule.type = std::is_integral_v<Number> ? ValueType::integer : ValueType::number;
    rule.min = least;
    rule.max = most;
    if (const auto found = check_value(entry->value, rule, "[" + name + "] " + key, diagnostics_))
      number = std::get<Number>(*found);
  }

  /// Distinct, and none of them a seed of the study itself.
  std::vector<int64_t> seeds(const Entry& parent, const std::string& table, const char* key, bool is_required) {
    const std::string name = "[" + table + "] " + key;
    const Entry* const entry = parent.value.find(key);
    if (!entry) {
      if (is_required)
        diagnostics_.add(parent.position, "[" + table + "] lacks the key \"" + key +
                                              "\": a list of "
                                              "seeds, [11, 12, 13]");
      return {};
    }
    if (entry->value.kind != Node::Kind::list || entry->value.items.empty()) {
      diagnostics_.add(entry->value.position, name + ": wanted a list of seeds, [11, 12, 13]");
      return {};
    }
    ValueRule rule;
    rule.type = ValueType::integer;
    rule.min = 0;
    std::vector<int64_t> found;
    for (const Node& item : entry->value.items) {
      const auto seed = check_value(item, rule, name, diagnostics_);
      if (!seed) continue;
      const auto number = std::get<int64_t>(*seed);
      if (std::ranges::find(found, number) != found.end())
        diagnostics_.add(item.position, name + ": found seed " + std::to_string(number) + " twice");
      else if (std::ranges::find(study_.seeds, number) != study_.seeds.end())
        diagnostics_.add(item.position,
                         name + ": found seed " + std::to_string(number) +
                             ", which is one of [study] "
                             "seeds",
                         "choose others: these must not have a part in the result");
      found.push_back(number);
    }
    return found;
  }

  void read_stops(const Node& list) {
    const auto most = int64_t(study_.seeds.size()) - 1;
    const std::string wanted = "[study] stop_at: wanted rising numbers of seeds from 2 to " + std::to_string(most) +
                               ", one less than there are";
    if (list.kind != Node::Kind::list || list.items.empty() || most < 2) {
      diagnostics_.add(list.position, most < 2 ? "[study] stop_at: wanted at least three seeds in [study]" : wanted);
      return;
    }
    for (const Node& item : list.items) {
      const int64_t least = study_.stops.empty() ? 2 : study_.stops.back() + 1;
      if (item.kind == Node::Kind::integer && item.integer >= least && item.integer <= most)
        study_.stops.push_back(item.integer);
      else
        diagnostics_.add(item.position, wanted);
    }
  }

  std::vector<StudyChange> changes_in(Node table, const std::string& where) {
    if (table.kind != Node::Kind::table) {
      diagnostics_.add(table.position, where + ": wanted a table of keys of an experiment, \"train.steps = 500\"");
      return {};
    }
    make_paths_absolute(table, "", file_.parent_path());
    std::vector<StudyChange> found;
    flatten(table, "", where, found);
    return found;
  }

  static bool is_stated_by_study(const std::string& key) { return key == "seed" || key == "name" || key == "sweep"; }

  void refuse_stated_by_study(const Entry& entry, const std::string& where, const std::string& key) {
    diagnostics_.add(entry.position, where + ": found " + quote(key) + ", which the study states itself",
                     "remove it: seeds are in [study] seeds, and runs are named after the study and the member");
  }

  void flatten(const Node& table, const std::string& path, const std::string& where, std::vector<StudyChange>& found) {
    for (const Entry& entry : table.entries) {
      const std::string key = path.empty() ? entry.key : path + "." + entry.key;
      if (is_stated_by_study(key)) {
        refuse_stated_by_study(entry, where, key);
      } else if (entry.value.kind == Node::Kind::table) {
        flatten(entry.value, key, where, found);
      } else if (entry.value.kind == Node::Kind::time) {
        diagnostics_.add(entry.value.position, where + ": found a time, which no key accepts");
      } else {
        found.push_back({key + "=" + toml_of(entry.value), place(entry.position)});
      }
    }
  }

  void read_budgets(const Entry& budgets) {
    if (budgets.value.kind != Node::Kind::table) {
      diagnostics_.add(budgets.position, "budgets: wanted the table [study.budgets]");
      return;
    }
    known_keys(budgets.value, "study.budgets", {"tokens", "operations", "seconds"});
    for (const Entry& entry : budgets.value.entries) {
      const auto unit = from_name<BudgetUnit>(entry.key);
      if (!unit || *unit == BudgetUnit::end) continue;
      const std::string name = "[study.budgets] " + entry.key;
      if (entry.value.kind != Node::Kind::list)
        diagnostics_.add(entry.value.position, name + ": wanted a list of amounts, or [\"shortest\"]");
      for (const Node& item : entry.value.items) {
        ValueRule rule;
        rule.type = ValueType::text_or_number;
        rule.choices = {"shortest"};
        rule.min = 0;
        rule.above = true;
        const auto found = check_value(item, rule, name, diagnostics_);
        const double* const amount = found ? std::get_if<double>(&*found) : nullptr;
        if (!found) continue;
        const StudyBudget budget{*unit, amount ? *amount : 0};
        const auto is_same = [&](const StudyBudget& one) { return title_of(one) == title_of(budget); };
        if (std::ranges::any_of(study_.budgets, is_same))
          diagnostics_.add(item.position, name + ": " + title_of(budget) + " is there twice");
        study_.budgets.push_back(budget);
      }
    }
  }

  void members(const Entry& study) {
    const Entry* const list = study.value.find("members");
    if (!list || list->value.kind != Node::Kind::list || list->value.items.size() < 2) {
      diagnostics_.add(list ? list->position : study.position,
                       "[study]: wanted at least two [[study.members]], a control and what is compared with it");
      return;
    }
    for (const Node& item : list->value.items) {
      if (item.kind == Node::Kind::table)
        given_.push_back(member(item));
      else
        diagnostics_.add(item.position, "members: wanted [[study.members]] tables");
    }
    for (const Condition& condition : conditions_)
      for (const GivenMember& given : given_)
        if (given.conditions.empty() || std::ranges::find(given.conditions, condition.name) != given.conditions.end())
          add_member(given, condition);
  }

  void add_member(const GivenMember& given, const Condition& condition) {
    StudyMember member = given.member;
    member.condition = condition.name;
    member.name = member.title + (condition.name.empty() ? "" : ", " + condition.name);
    member.changes = common_;
    for (const auto* more : {&condition.changes, &given.member.changes})
      member.changes.insert(member.changes.end(), more->begin(), more->end());
    if (!member.name.empty()) check_name(member, given.name_at);
    study_.members.push_back(std::move(member));
  }

  void read_conditions(const Entry& list) {
    if (list.value.kind != Node::Kind::list || list.value.items.empty()) {
      diagnostics_.add(list.position, "conditions: wanted [[study.conditions]] tables, each with a name");
      return;
    }
    conditions_.clear();
    study_.conditions.clear();
    for (const Node& item : list.value.items) {
      const std::string name = text(item, "study.conditions", "name");
      const bool is_plain = std::ranges::all_of(name, [](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) || std::string_view(" %.+-_").find(c) != std::string::npos;
      });
      if (name.empty() || !is_plain)
        diagnostics_.add(item.position,
                         "[[study.conditions]]: wanted a name in letters, digits, spaces and any of % . + - _");
      else if (std::ranges::find(study_.conditions, name) != study_.conditions.end())
        diagnostics_.add(item.position, "[[study.conditions]]: found the name " + quote(name) + " twice");
      Node rest = item;
      std::erase_if(rest.entries, [](const Entry& entry) { return entry.key == "name"; });
      conditions_.push_back({name, changes_in(rest, "[[study.conditions]]")});
      study_.conditions.push_back(name);
    }
  }

  GivenMember member(const Node& node) {
    GivenMember given;
    StudyMember& member = given.member;
    member.place = place(node.position);
    member.title = text(node, "study.members", "name");
    if (const Entry* const name = node.find("name"))
      given.name_at = name->value.position;
    else
      diagnostics_.add(node.position, "[[study.members]] lacks the key \"name\"");
    if (const Entry* const only = node.find("conditions")) given.conditions = conditions_of_member(*only);
    const std::string file = text(node, "study.members", "experiment");
    if (!node.find("experiment"))
      diagnostics_.add(node.position, "[[study.members]] lacks the key \"experiment\": a file to train");
    member.experiment = file_.parent_path() / file;
    Node rest = node;
    std::erase_if(rest.entries, [](const Entry& entry) {
      return entry.key == "name" || entry.key == "experiment" || entry.key == "tune" || entry.key == "conditions";
    });
    member.changes = changes_in(rest, "[[study.members]]");
    if (const Entry* const tune = node.find("tune")) {
      Node table = tune->value;
      make_paths_absolute(table, "", file_.parent_path());
      tuned_keys(table, "", member.tuned);
    }
    return given;
  }

  std::vector<std::string> conditions_of_member(const Entry& only) {
    if (study_.conditions.front().empty()) {
      diagnostics_.add(only.position, "[[study.members]] conditions: the study has no [[study.conditions]]");
      return {};
    }
    ValueRule rule = text_rule();
    rule.type = ValueType::texts;
    rule.choices = study_.conditions;
    const auto found = check_value(only.value, rule, "[[study.members]] conditions", diagnostics_);
    return found ? std::get<std::vector<std::string>>(*found) : std::vector<std::string>();
  }

  void check_name(const StudyMember& member, TomlPosition at) {
    const std::string& name = member.name;
    const bool is_plain = std::ranges::all_of(name, [](char c) { return uint8_t(c) >= ' ' && c != '|' && c != 0x7f; });
    const std::string run = study_.name + "-" + name_part(name);
    const size_t length = run.size() + std::string("tuning-").size();  // with what its other runs are for
    if (!is_plain || name_part(name).empty())
      diagnostics_.add(at, "[[study.members]] name: wanted a text in letters and digits, for tables");
    else if (length > longest_run_name)
      diagnostics_.add(at,
                       "[[study.members]] name: its runs would be named " + quote(run) +
                           ", and those of a tuning longer than " + std::to_string(longest_run_name) + " characters",
                       "choose a shorter name");
    else if (!run_names_.insert(run).second)
      diagnostics_.add(at, "[[study.members]] name: another member's runs are named " + quote(run) + ", too");
  }

  void tuned_keys(const Node& table, const std::string& path, std::vector<TunedKey>& found) {
    if (table.kind != Node::Kind::table)
      diagnostics_.add(table.position, "tune: wanted keys of the experiment, each with a list of values");
    for (const Entry& entry : table.entries) {
      const std::string key = path.empty() ? entry.key : path + "." + entry.key;
      const Node& value = entry.value;
      if (is_stated_by_study(key)) {
        refuse_stated_by_study(entry, "tune", key);
        continue;
      }
      const bool is_range = value.kind == Node::Kind::table && (value.find("from") || value.find("to"));
      if (value.kind == Node::Kind::table && !is_range) {
        tuned_keys(value, key, found);
        continue;
      }
      TunedKey tuned{key, place(entry.position), {}};
      if (is_range) {
        range(key, value, tuned);
      } else if (value.kind != Node::Kind::list || value.items.empty()) {
        diagnostics_.add(value.position, "tune." + key + ": wanted a list of values, or {from = 1e-4, to = 1e-2}");
      } else {
        for (const Node& item : value.items) tuned.values.push_back(toml_of(item));
      }
      found.push_back(std::move(tuned));
      has_range_ = has_range_ || is_range;
    }
  }

  void range(const std::string& key, const Node& value, TunedKey& tuned) {
    known_keys(value, "tune." + key, {"from", "to"});
    ValueRule rule;
    rule.type = ValueType::number;
    rule.min = 0;
    rule.above = true;
    for (const auto& [name, bound] : {std::pair{"from", &tuned.from}, std::pair{"to", &tuned.to}}) {
      const Entry* const entry = value.find(name);
      const auto found =
          entry ? check_value(entry->value, rule, "tune." + key + "." + name, diagnostics_) : std::optional<Value>();
      if (found) *bound = std::get<double>(*found);
      if (!entry) diagnostics_.add(value.position, "tune." + key + " lacks \"" + name + "\"");
    }
    if (tuned.from > 0 && tuned.to > 0 && tuned.from >= tuned.to)
      diagnostics_.add(value.position, "tune." + key + ": wanted \"from\" below \"to\"");
  }

  void tuning(const Node& study) {
    const auto is_tuned = [](const StudyMember& member) { return !member.tuned.empty(); };
    const auto member = std::ranges::find_if(study_.members, is_tuned);
    const Entry* const entry = study.find("tuning");
    if (!entry) {
      if (member != study_.members.end())
        diagnostics_.add(study.find("members")->position,
                         "member " + quote(member->name) + " has keys to tune, but there is no [study.tuning]",
                         "add it, with seeds and data for validation that have no part in the result");
      return;
    }
    if (member == study_.members.end())
      diagnostics_.add(entry->position, "[study.tuning]: no member has keys to tune",
                       "write tune.optimizer.lr = [1e-3, 2e-3] in [[study.members]], or remove [study.tuning]");
    known_keys(entry->value, "study.tuning", {"seeds", "draws", "set"});
    study_.tuning.seeds = seeds(*entry, "study.tuning", "seeds", true);
    read_number(entry->value, "study.tuning", "draws", 1, double(max_sweep_members), study_.tuning.draws);
    if (has_range_ && !entry->value.find("draws")) {
      diagnostics_.add(entry->position, "[study.tuning] lacks the key \"draws\": how often to draw from a range");
    }
    if (const Entry* const set = entry->value.find("set"))
      study_.tuning.changes = changes_in(set->value, "[study.tuning] set");
  }

  void control(const Node& study) {
    if (given_.empty()) return;
    std::vector<std::string> names;
    for (const GivenMember& given : given_) names.push_back(given.member.title);
    const std::string name = study.find("control") ? text(study, "study", "control") : names.front();
    const auto found = std::ranges::find(names, name);
    if (found == names.end()) {
      diagnostics_.add(study.find("control")->value.position,
                       "[study] control: found " + quote(name) + ", wanted one of the members " + join_names(names));
      return;
    }
    const GivenMember& control = given_[size_t(found - names.begin())];
    if (!control.conditions.empty())
      diagnostics_.add(study.find("members")->position, "the control " + quote(name) + " has \"conditions\"",
                       "remove them: the other members are compared with it under each condition");
    for (StudyMember& member : study_.members) {
      const auto is_its_control = [&](const StudyMember& other) {
        return other.title == name && other.condition == member.condition;
      };
      const auto at = std::ranges::find_if(study_.members, is_its_control);
      if (at != study_.members.end()) member.control = size_t(at - study_.members.begin());
    }
  }

  void evaluations(const Node& study) {
    if (const Entry* const list = study.find("evaluations")) {
      if (list->value.kind != Node::Kind::table)
        diagnostics_.add(list->position, "evaluations: wanted tables, [study.evaluations.NAME]");
      for (const Entry& entry : list->value.entries) study_.evaluations.push_back(evaluation(entry));
    }
    if (const Entry* const metric = study.find("metric")) check_evaluated(metric->value, study_.metric);
    if (const Entry* const also = study.find("also"))
      for (size_t i = 0; i < study_.explored.size(); ++i) check_evaluated(also->value.items[i], study_.explored[i]);
    check_evaluations_are_used(study);
    if (const Entry* const entry = study.find("budgets"); entry && evaluation_metric(study_.metric))
      diagnostics_.add(entry->position,
                       "[study.budgets]: the metric is " + printable(study_.metric) +
                           ", which is of finished models, so that nothing is known of it at a budget",
                       "remove the table, or state a metric of validation");
  }

  /// Neither the validation nor the problems that decide may choose the settings that they judge. [after evaluations()]
  void check_tuning_data(const Node& study) {
    const Entry* const entry = study.find("tuning");
    if (!entry) return;
    if (const auto metric = evaluation_metric(study_.metric)) {
      const auto decides = [&](const StudyEvaluation& one) {
        return one.name == metric->evaluation && !has_seed(one.suite);
      };
      if (std::ranges::any_of(study_.evaluations, decides))
        diagnostics_.add(entry->position,
                         "[study.tuning]: the metric is " + printable(study_.metric) +
                             ", whose problems would choose the settings that they judge",
                         "give each seed problems of its own: suite = \"{seed}/test.jsonl\"");
      return;
    }
    const auto changes_data = [](const StudyChange& change) {
      const std::string key = change.text.substr(0, change.text.find('='));
      return key == "validation.files" || key == "data.files" || key == "data.file" ||
             key.starts_with("data.arithmetic.");
    };
    const auto validates_by_seed = [](const StudyChange& change) {
      return change.text.starts_with("validation.files=") && has_seed(change.text);
    };
    const auto shares_validation = [&](const StudyMember& one) {
      return !one.tuned.empty() && std::ranges::none_of(one.changes, validates_by_seed);
    };
    if (std::ranges::none_of(study_.tuning.changes, changes_data) &&
        std::ranges::any_of(study_.members, shares_validation))
      diagnostics_.add(entry->position,
                       "[study.tuning]: \"set\" names no other files of [validation] or [data], so that the data which "
                       "judge the members would choose their settings",
                       "name other data for validation: set.validation.files = [\"others/*.py\"]; or data of each seed "
                       "in [study.set]: validation.files = [\"{seed}/valid.jsonl\"]");
  }

  StudyEvaluation evaluation(const Entry& entry) {
    const std::string table = "study.evaluations." + entry.key;
    StudyEvaluation found{.name = entry.key, .place = place(entry.position), .suite = "", .judge = ""};
    if (entry.key.empty() || entry.key.find_first_of("/|") != std::string::npos)
      diagnostics_.add(entry.position, "[study.evaluations]: found the name " + quote(entry.key) +
                                           ", wanted one without / and |, for metrics and tables");
    if (entry.value.kind != Node::Kind::table) {
      diagnostics_.add(entry.position, "evaluations: wanted a table, [" + table + "]");
      return found;
    }
    known_keys(entry.value, table, {"suite", "judge", "temperature", "max_tokens"});
    if (!entry.value.find("suite"))
      diagnostics_.add(entry.position, "[" + table + "] lacks the key \"suite\": a file of problems, as for `eval`");
    for (const auto& [key, path] : {std::pair{"suite", &found.suite}, std::pair{"judge", &found.judge}})
      if (const std::string given = text(entry.value, table, key); !given.empty())
        *path = (file_.parent_path() / given).lexically_normal().string();
    read_number(entry.value, table, "temperature", 0, 100, found.temperature);
    read_number(entry.value, table, "max_tokens", 1, 1 << 20, found.max_tokens);
    return found;
  }

  std::vector<std::string> evaluation_names() const {
    std::vector<std::string> names;
    for (const StudyEvaluation& evaluation : study_.evaluations) names.push_back(evaluation.name);
    return names;
  }

  void check_evaluated(const Node& value, const std::string& metric) {
    const auto of = evaluation_metric(metric);
    const std::vector<std::string> names = evaluation_names();
    if (!of || std::ranges::find(names, of->evaluation) != names.end()) return;
    const std::string nearest = nearest_name(of->evaluation, names);
    diagnostics_.add(value.position,
                     "found the metric " + printable(metric) + ", but no [study.evaluations." + of->evaluation + "]",
                     !nearest.empty() ? "did you mean eval/" + nearest + "?"
                     : names.empty()  ? "add the table, with a suite"
                                      : "evaluations: " + join_names(names));
  }

  void check_evaluations_are_used(const Node& study) {
    for (const StudyEvaluation& evaluation : study_.evaluations) {
      const auto names_it = [&](const std::string& metric) {
        const auto of = evaluation_metric(metric);
        return of && of->evaluation == evaluation.name;
      };
      if (std::ranges::none_of(study_.metrics(), names_it))
        diagnostics_.add(study.find("evaluations")->value.find(evaluation.name)->position,
                         "[study.evaluations." + evaluation.name + "]: no metric is of it",
                         "add \"eval/" + evaluation.name + "\" to [study] also, or remove the table");
    }
  }

  std::filesystem::path file_;
  Diagnostics& diagnostics_;
  Study study_;
  std::vector<StudyChange> common_;  ///< changes of all members
  std::vector<Condition> conditions_{{}};
  std::vector<GivenMember> given_;
  std::set<std::string> run_names_;
  bool has_range_ = false;
};

}  // namespace

bool is_study(const std::filesystem::path& file, SourceTexts& texts) {
  Diagnostics ignored;
  const std::optional<Node> document = parsed(file, texts, ignored);
  return document && document->find("study");
}

Study read_study(const std::filesystem::path& file, SourceTexts& texts) {
  Diagnostics diagnostics;
  const std::optional<Node> document = parsed(file, texts, diagnostics);
  diagnostics.raise();
  Study study = Reader(file, diagnostics).read(*document);
  diagnostics.raise();
  return study;
}

}  // namespace wmtp
