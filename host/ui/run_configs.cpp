#include "ui/run_configs.hpp"

#include <algorithm>
#include <map>
#include <string_view>
#include <vector>

#include "base/json_text.hpp"
#include "report/compare.hpp"
#include "ui/page_data.hpp"

namespace wmtp {
namespace {

/// Writes a JSON object from the texts of its members, which takes a fraction of the memory of an OrderedJson.
class ObjectText {
 public:
  void add(const std::string& quoted_key, std::string_view value) {
    ((text_ += text_.empty() ? '{' : ',') += quoted_key) += ':';
    text_ += value;
  }
  std::string end() { return text_.empty() ? "{}" : std::move(text_) + "}"; }

 private:
  std::string text_;
};

std::string quoted(int64_t run) { return '"' + std::to_string(run) + '"'; }

/// The keys with several values, or that only some runs have, with the value of each run. In one pass, because SQLite
/// would sort all parameters of all runs.
void add_differing_values(const LogReader& log, size_t runs, ObjectText& differing) {
  struct Key {
    std::string text, value;  ///< of the first run: as logged, as JSON
    std::vector<int64_t> equal;
    std::vector<std::pair<int64_t, std::string>> others;
  };
  std::map<std::string, Key> keys;
  log.each_row("SELECT key, run_id, value_text, value_num FROM run_params", {}, [&](const Statement& row) {
    const auto value = [&] { return dumped(row.null(3) ? OrderedJson(row.text(2)) : number_json(row.real(3))); };
    const auto [place, is_new] = keys.try_emplace(row.text(0));
    Key& key = place->second;
    if (is_new) key.text = row.text(2), key.value = value();
    if (row.text(2) == key.text)
      key.equal.push_back(row.integer(1));
    else
      key.others.emplace_back(row.integer(1), value());
  });
  for (const auto& [name, key] : keys) {
    if (key.others.empty() && key.equal.size() == runs) continue;
    ObjectText values;
    for (const int64_t run : key.equal) values.add(quoted(run), key.value);
    for (const auto& [run, value] : key.others) values.add(quoted(run), value);
    differing.add(dumped(OrderedJson(name)), values.end());
  }
}

/// For each metric of which runs measure different quantities (quantity_of): the number of the quantity in each run; 0,
/// which is left out, is that of a run without options.
void add_quantities(const LogReader& log, size_t runs, ObjectText& quantities) {
  struct Metric {
    std::map<std::string, int64_t> numbers;
    size_t runs = 0;
    ObjectText values;
  };
  std::vector<std::string> names;
  log.each_row("SELECT name FROM metric_names", {}, [&](const Statement& row) {
    if (std::string name = row.text(0); has_quantities(name)) names.push_back(std::move(name));
  });
  std::map<std::string, Metric> metrics;
  std::map<std::string, std::string> params;
  int64_t run = 0;
  const auto take_run = [&] {
    for (const std::string& name : names) {
      const std::string quantity = quantity_of(name, params);
      if (quantity.empty()) continue;
      Metric& metric = metrics[name];
      const int64_t number = metric.numbers.try_emplace(quantity, int64_t(metric.numbers.size()) + 1).first->second;
      metric.values.add(quoted(run), std::to_string(number));
      ++metric.runs;
    }
    params.clear();
  };
  log.each_row("SELECT run_id, key, value_text FROM run_params ORDER BY run_id", {}, [&](const Statement& row) {
    if (row.integer(0) != run) take_run();
    run = row.integer(0);
    params[row.text(1)] = row.text(2);
  });
  take_run();
  for (auto& [name, metric] : metrics)
    if (metric.numbers.size() > 1 || metric.runs < runs) quantities.add(dumped(OrderedJson(name)), metric.values.end());
}

/// The name that an experiment's text gives, without the values of a sweep: of the first line `name = "…"`. A regular
/// expression would take most of the time of an answer.
std::string name_in(std::string_view toml) {
  const auto skip_space = [](std::string_view& text) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t"), text.size()));
  };
  while (!toml.empty()) {
    const size_t end = std::min(toml.find('\n'), toml.size() - 1);
    std::string_view line = toml.substr(0, end + 1);
    toml.remove_prefix(end + 1);
    skip_space(line);
    if (!line.starts_with("name")) continue;
    line.remove_prefix(4);
    skip_space(line);
    if (!line.starts_with('=')) continue;
    line.remove_prefix(1);
    skip_space(line);
    const size_t close = line.starts_with('"') || line.starts_with('\'') ? line.find(line[0], 1) : line.npos;
    if (close != line.npos) return std::string(line.substr(1, close - 1));
  }
  return "";
}

}  // namespace

std::string configs_text(const LogReader& log, size_t runs) {
  ObjectText keys, sweeps, quantities, answer;
  add_differing_values(log, runs, keys);
  add_quantities(log, runs, quantities);
  // Members of a sweep have the text of their experiment in common.
  log.each_row("SELECT id, name, substr(experiment_toml, 1, 4096) FROM runs", {}, [&](const Statement& row) {
    const std::string base = name_in(row.text(2));
    sweeps.add(quoted(row.integer(0)), dumped(OrderedJson(base.empty() ? row.text(1) : base)));
  });
  keys.add("\"sweep\"", sweeps.end());
  answer.add("\"keys\"", keys.end());
  answer.add("\"quantities\"", quantities.end());
  answer.add("\"why_no_difference\"", dumped(OrderedJson(why_no_difference)));
  return answer.end();
}

}  // namespace wmtp
