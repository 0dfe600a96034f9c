#include "report/runs.hpp"

#include <algorithm>
#include <cmath>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

/// "2026-01-31T12:00:00Z" -> "2026-01-31 12:00:00"
std::string readable_time(std::string text) {
  if (text.size() == 20 && text[10] == 'T') {
    text[10] = ' ';
    text.pop_back();
  }
  return text;
}

bool is_number(const std::string& text) {
  const auto value = parsed_number<double>(text);
  return value && std::isfinite(*value);
}

void require_key(const LogReader& log, const std::string& key) {
  std::vector<std::string> keys;
  for (const Row& row : log.query("SELECT DISTINCT key FROM run_params").rows) keys.push_back(row[0]);
  if (keys.empty() || std::find(keys.begin(), keys.end(), key) != keys.end()) return;
  const std::string nearest = nearest_name(key, keys);
  throw Error(ExitStatus::usage, "--where: no run in " + log.database().string() + " has an option " + key +
                                     (nearest.empty() ? "; `wmtp-host runs show RUN` lists the options of a run"
                                                      : "; did you mean '" + nearest + "'?"));
}

/// An SQL condition and its bound values.
struct Conditions {
  std::string sql = "1";
  std::vector<SqlValue> values;

  std::string bound(const std::string& value) {
    values.push_back(value);
    return "?" + std::to_string(values.size());
  }
  void add(const std::string& condition) { sql += " AND " + condition; }
};

void add_option(Conditions& conditions, const LogReader& log, const std::string& condition) {
  const size_t equals = condition.find('=');
  if (equals == std::string::npos || equals == 0)
    throw Error(ExitStatus::usage, "--where " + condition + ": wanted KEY=VALUE, for example pipeline.keep=0.6");
  const std::string key = condition.substr(0, equals), value = condition.substr(equals + 1);
  require_key(log, key);
  const std::string text = conditions.bound(value);
  conditions.add("EXISTS (SELECT 1 FROM run_params AS p WHERE p.run_id = v.id AND p.key = " + conditions.bound(key) +
                 " AND (p.value_text = " + text +
                 (is_number(value) ? " OR p.value_num = CAST(" + text + " AS REAL)" : "") + "))");
}

Conditions conditions_of(const RunSelection& selection, const LogReader& log) {
  Conditions conditions;
  if (!selection.statuses.empty()) {
    std::string any;
    for (const std::string& status : selection.statuses) any += (any.empty() ? "" : ", ") + conditions.bound(status);
    conditions.add("status IN (" + any + ")");
  }
  if (!selection.name.empty()) conditions.add("name GLOB " + conditions.bound(selection.name));
  if (!selection.pipeline.empty()) conditions.add("pipeline = " + conditions.bound(selection.pipeline));
  for (const std::string& tag : selection.tags)
    conditions.add("EXISTS (SELECT 1 FROM run_tags AS t WHERE t.run_id = v.id AND t.tag = " + conditions.bound(tag) +
                   ")");
  if (!selection.archived) conditions.add("archived = 0");
  if (!selection.segments) conditions.add("resumed_by IS NULL");
  for (const std::string& condition : selection.where) add_option(conditions, log, condition);
  return conditions;
}

std::string order_of(const RunSelection& selection) {
  if (selection.sort.empty()) return selection.reverse ? "id" : "id DESC";
  return selection.sort + " IS NULL, " + selection.sort + (selection.reverse ? " DESC" : "") + ", id DESC";
}

}  // namespace

const std::vector<std::string>& sort_keys() {
  static const std::vector<std::string> keys{
      "id",         "name",       "seed",       "pipeline",     "status",
      "steps",      "train_loss", "valid_loss", "valid_head_1", "tokens_per_second",
      "started_at", "seconds",    "tags"};
  return keys;
}

std::vector<int64_t> distinct_runs(const LogReader& log, const std::vector<std::string>& words) {
  std::vector<int64_t> runs;
  for (const std::string& word : words)
    if (const int64_t run = log.resolve_run(word); std::ranges::find(runs, run) == runs.end()) runs.push_back(run);
  return runs;
}

void print_runs_list(std::ostream& out, const LogReader& log, TableFormat format, const RunSelection& selection) {
  const auto& keys = sort_keys();
  if (!selection.sort.empty() && std::find(keys.begin(), keys.end(), selection.sort) == keys.end())
    throw Error(ExitStatus::bug, "runs cannot be sorted by " + selection.sort);
  std::string columns;
  for (const std::string& key : keys) columns += (columns.empty() ? "" : ", ") + key;
  const Conditions conditions = conditions_of(selection, log);
  const int64_t limit = selection.limit > 0           ? selection.limit
                        : format == TableFormat::text ? listed_runs
                                                      : LogReader::all_rows;
  Table table =
      log.query("SELECT " + columns + " FROM v_runs AS v WHERE " + conditions.sql + " ORDER BY " + order_of(selection),
                conditions.values, limit);
  if (format != TableFormat::text) return print_table(out, table, format);
  if (table.rows.empty()) {
    const auto all = log.query("SELECT count(*) FROM runs").rows[0][0].get<int64_t>();
    if (all > 0)
      out << "none of the " << counted(all, "run") << " in " << log.database().string() << " matches\n";
    else if (!log.exists())
      out << "no run log at " << std::filesystem::absolute(log.database()).string()
          << "; `wmtp-host run FILE.toml` creates it, --db FILE or WMTP_DB selects another\n";
    else
      out << "no runs in " << log.database().string() << " yet; start one with `wmtp-host run FILE.toml`\n";
    return;
  }
  table.columns = {"id",         "name",   "seed",     "pipeline",      "status",   "steps", "train/loss",
                   "valid/loss", "head 1", "tokens/s", "started (UTC)", "duration", "tags"};
  for (auto& row : table.rows) {
    if (row[9].is_number()) row[9] = with_thousands(std::llround(row[9].get<double>()));
    row[10] = readable_time(row[10].get<std::string>());
    if (row[11].is_number()) row[11] = human_whole_seconds(row[11].get<double>());
    if (row[12].is_null()) row[12] = "";
  }
  print_table(out, table, format);
  if (table.capped && selection.limit == 0) out << "--limit N shows more; --json shows all\n";
}

}  // namespace wmtp
