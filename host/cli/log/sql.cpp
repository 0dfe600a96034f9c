// `sql "SELECT …"`: one read-only SQL statement on the run log.
#include <iostream>
#include <limits>
#include <memory>

#include "cli/command.hpp"
#include "log/log_option.hpp"
#include "log/log_reader.hpp"
#include "report/table.hpp"

namespace wmtp {

void add_sql(CommandLine& line) {
  struct Options {
    std::string statement;
    bool json = false, csv = false;
    int64_t limit = 1000;
  };
  const auto options = std::make_shared<Options>();
  auto& sql = line.add(
      "sql",
      "query the run log in SQL, read-only\n\n"
      "example:\n"
      "  wmtp-host sql \"SELECT step, value FROM v_metrics WHERE run_id = 3 AND name = 'train/loss'\" --csv\n",
      [options](const GlobalOptions& globals) {
        const LogReader log(globals.database_or(default_database));
        if (!log.exists()) throw absent_log(log.database());
        const auto table = log.run_user_query(options->statement, options->limit);
        const auto format = options->json ? TableFormat::json : options->csv ? TableFormat::csv : TableFormat::text;
        print_table(std::cout, table, format);
        if (table.capped && format != TableFormat::text)
          std::cerr << "only the first " << options->limit << " rows are shown; raise --limit for more\n";
        return 0;
      });
  add_option(sql, "STATEMENT", options->statement, "SELECT, WITH or a read-only PRAGMA", required);
  auto* json = sql.add_flag("--json", options->json, "print JSON");
  sql.add_flag("--csv", options->csv, "print CSV")->excludes(json);
  add_option(sql, "--limit N", options->limit, "maximum number of rows (1000)",
             CLI::Range(int64_t{1}, std::numeric_limits<int64_t>::max() - 1));
}

}  // namespace wmtp
