#include "core/ui/page_details.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "core/report/compare.hpp"
#include "core/runlog/database.hpp"

namespace wmtp {
namespace {

constexpr const char* all_params = R"sql(
  SELECT key, value_text FROM run_params WHERE run_id = CAST(?1 AS INTEGER) ORDER BY key)sql";

constexpr const char* memory_rows = R"sql(
  SELECT rank, step, phase, category, bytes FROM memory WHERE run_id = ?1 ORDER BY rowid LIMIT 200000)sql";

constexpr const char* newest_events = R"sql(
  SELECT * FROM (
    SELECT e.rowid AS row, e.run_id, e.time_ns / 1e9 AS time, e.rank, e.level, e.kind, e.step, e.message,
      e.time_ns / 1e9 - CAST(strftime('%s', r.started_at) AS INTEGER) AS seconds
    FROM events AS e JOIN runs AS r ON r.id = e.run_id
    WHERE e.run_id = ?1 AND e.rowid > ?2 ORDER BY e.rowid DESC LIMIT 2000)
  ORDER BY row)sql";

constexpr const char* token_rows = R"sql(
  SELECT position, head, token_id, text, weight, loss, reference_loss
  FROM samples WHERE run_id = ?1 AND step = ?2 AND sequence = ?3 ORDER BY head, position)sql";

PageJson real_or_null(const Statement& row, int column) {
  return row.null(column) ? PageJson() : number_json(row.real(column));
}

PageJson integer_or_null(const Statement& row, int column) {
  return row.null(column) ? PageJson() : PageJson(row.integer(column));
}

PageJson distinct(const LogReader& log, const std::string& column, int64_t run) {
  PageJson values = PageJson::array();
  log.each_row("SELECT DISTINCT " + column + " FROM samples WHERE run_id = ?1 ORDER BY 1", {run},
               [&](const Statement& row) { values.push_back(row.integer(0)); });
  return values;
}

}  // namespace

PageJson number_json(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char digits[32];
  std::snprintf(digits, sizeof(digits), "%.9g", value);
  return std::strtod(digits, nullptr);
}

PageJson params_json(const LogReader& log, const std::vector<int64_t>& runs) {
  const Table table =
      runs.size() == 1 ? log.query(all_params, {std::to_string(runs[0])}, 100'000) : differing_params(log, runs);
  PageJson rows = PageJson::array();
  for (const auto& row : table.rows)
    rows.push_back({{"key", row[0]}, {"values", std::vector<nlohmann::json>(row.begin() + 1, row.end())}});
  return {{"runs", runs}, {"rows", rows}};
}

PageJson memory_json(const LogReader& log, int64_t run) {
  PageJson rows = PageJson::array();
  log.each_row(memory_rows, {run}, [&](const Statement& row) {
    rows.push_back({row.integer(0), row.integer(1), row.text(2), row.text(3), row.integer(4)});
  });
  return {{"run", run}, {"columns", {"rank", "step", "phase", "category", "bytes"}}, {"rows", rows}};
}

PageJson events_json(const LogReader& log, const std::vector<int64_t>& runs, int64_t after) {
  PageJson events = PageJson::array();
  for (const int64_t run : runs) {
    log.each_row(newest_events, {run, after}, [&](const Statement& row) {
      events.push_back({{"run", row.integer(1)},
                        {"time", row.real(2)},
                        {"rank", integer_or_null(row, 3)},
                        {"level", row.text(4)},
                        {"kind", row.text(5)},
                        {"step", integer_or_null(row, 6)},
                        {"message", row.text(7)},
                        {"seconds", row.real(8)}});
    });
  }
  return events;
}

PageJson sampled_json(const LogReader& log, int64_t run) {
  return {{"run", run},
          {"steps", distinct(log, "step", run)},
          {"sequences", distinct(log, "sequence", run)},
          {"heads", distinct(log, "head", run)}};
}

PageJson tokens_json(const LogReader& log, int64_t run, int64_t step, int64_t sequence) {
  PageJson columns;
  for (const char* name : {"position", "head", "token_id", "text", "weight", "loss", "reference_loss"})
    columns[name] = PageJson::array();
  log.each_row(token_rows, {run, step, sequence}, [&](const Statement& row) {
    columns["position"].push_back(row.integer(0));
    columns["head"].push_back(row.integer(1));
    columns["token_id"].push_back(row.integer(2));
    columns["text"].push_back(row.text(3));
    columns["weight"].push_back(real_or_null(row, 4));
    columns["loss"].push_back(real_or_null(row, 5));
    columns["reference_loss"].push_back(real_or_null(row, 6));
  });
  return {{"run", run}, {"step", step}, {"sequence", sequence}, {"columns", columns}};
}

}  // namespace wmtp
