// `export RUN… --to …`: what the log knows of runs, in the files of other programs.
#include <algorithm>
#include <iostream>
#include <memory>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/command.hpp"
#include "core/export/mlflow.hpp"
#include "core/export/tables.hpp"
#include "core/export/tensorboard.hpp"
#include "core/runlog/log_reader.hpp"
#include "io/durable_file.hpp"

namespace wmtp {
namespace {

constexpr const char* help =
    "write runs for other programs\n\n"
    "  csv          every number, one to a line, for pandas, R and spreadsheets\n"
    "  json         everything that the log holds of the runs\n"
    "  tensorboard  a folder of event files, for `tensorboard --logdir DIR`\n"
    "  mlflow       a SQLite file, for `mlflow server --backend-store-uri sqlite:///FILE` (MLflow 2.8 and later)\n\n"
    "examples:\n"
    "  wmtp-host export rho1 --to csv -o rho1.csv\n"
    "  wmtp-host export baseline rho1 --to tensorboard -o board\n"
    "  wmtp-host export 3 4 5 --to mlflow -o mlflow.db\n"
    "  wmtp-host export 3 --to json | python3 -m json.tool\n";

struct Options {
  std::vector<std::string> runs;
  std::string format, target;
};

using Writer = void (*)(const LogReader&, const std::vector<int64_t>&, const TextOutput&);

void write_text(const Options& options, const LogReader& log, const std::vector<int64_t>& runs, Writer write) {
  if (options.target.empty()) {
    write(log, runs, [](std::string_view text) { std::cout << text; });
    std::cout.flush();
    if (!std::cout) throw Error(ExitStatus::storage, "standard output: cannot be written");
    return;
  }
  OutputFile draft(options.target);
  DurableFile file(draft.path());
  write(log, runs, [&](std::string_view text) { file.write(text); });
  file.finish();
  draft.publish();
}

int export_runs(const Options& options, const GlobalOptions& globals) {
  const bool text = options.format == "csv" || options.format == "json";
  if (!text && options.target.empty())
    throw Error(ExitStatus::usage, "--to " + options.format + " needs -o PATH; see `wmtp-host export --help`");
  const LogReader log(globals.database_or(default_database), std::chrono::minutes(10));
  std::vector<int64_t> runs;
  for (const std::string& word : options.runs) {
    const int64_t run = log.resolve_run(word);
    if (std::find(runs.begin(), runs.end(), run) == runs.end()) runs.push_back(run);
  }
  if (text) {
    write_text(options, log, runs, options.format == "csv" ? write_metrics_csv : write_runs_json);
  } else if (options.format == "tensorboard") {
    export_tensorboard(log, runs, options.target);
  } else {
    for (const std::string& cut : export_mlflow(log, runs, options.target))
      log_warning(cut + " is longer than MLflow takes and ends in …");
  }
  if (!options.target.empty()) log_info("wrote " + options.target);
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

void add_export(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  auto& command = line.add(
      "export", help, reading_log([options](const GlobalOptions& globals) { return export_runs(*options, globals); }));
  command.add_option("RUN", options->runs, "numbers, or names (the newest of each)")->required();
  command.add_option("--to", options->format, "for whom: csv, json, tensorboard or mlflow")
      ->check(CLI::IsMember({"csv", "json", "tensorboard", "mlflow"}))
      ->required();
  command
      .add_option("-o,--output", options->target,
                  "what to write; not there yet (csv and json: standard output without)")
      ->type_name("PATH");
}

}  // namespace wmtp
