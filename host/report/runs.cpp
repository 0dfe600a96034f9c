// `runs list`; see runs.hpp.
#include "report/runs.hpp"

#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr int64_t kMostRuns = 100'000;

/// "2026-01-31T12:00:00Z" -> "2026-01-31 12:00:00"
std::string readable_time(std::string text) {
  if (text.size() == 20 && text[10] == 'T') {
    text[10] = ' ';
    text.pop_back();
  }
  return text;
}

}  // namespace

void print_runs_list(std::ostream& out, const LogReader& log, TableFormat format) {
  Table table = log.query(
      "SELECT id, name, pipeline, status, steps, train_loss, valid_loss, tokens_per_second, started_at, seconds "
      "FROM v_runs ORDER BY id DESC",
      {}, kMostRuns);
  if (format != TableFormat::text) return print_table(out, table, format);
  if (table.rows.empty()) {
    out << "no runs in " << log.database().string() << " yet; `wmtp-host run FILE.toml` makes one\n";
    return;
  }
  table.columns = {"id",         "name",       "pipeline", "status",        "steps",
                   "train/loss", "valid/loss", "tokens/s", "started (UTC)", "duration"};
  for (auto& row : table.rows) {
    if (row[7].is_number()) row[7] = with_thousands(static_cast<int64_t>(row[7].get<double>()));
    row[8] = readable_time(row[8].get<std::string>());
    if (row[9].is_number()) row[9] = human_seconds(row[9].get<double>());
  }
  print_table(out, table, format);
}

}  // namespace wmtp
