// `export RUN… --to …`: runs of the log as CSV, JSON, TensorBoard or MLflow files, or sent to a tracker.
#include <iostream>
#include <memory>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/command.hpp"
#include "cli/log/run_words.hpp"
#include "export/mlflow.hpp"
#include "export/mlflow_push.hpp"
#include "export/tables.hpp"
#include "export/tensorboard.hpp"
#include "export/tracker_bridge.hpp"
#include "io/durable_file.hpp"
#include "log/log_reader.hpp"

namespace wmtp {
namespace {

constexpr const char* help =
    "export runs to CSV, JSON, TensorBoard, MLflow, Weights & Biases or Trackio\n\n"
    "  csv          every metric value, one per line, for pandas, R and spreadsheets\n"
    "  wide         one run as CSV with a column for each metric, for Trackio's import_csv and spreadsheets\n"
    "  json         everything the log contains about the runs\n"
    "  tensorboard  folder of event files, for `tensorboard --logdir DIR`\n"
    "  mlflow       SQLite file, for `mlflow server --backend-store-uri sqlite:///FILE` (MLflow 2.8 and later);\n"
    "               with --push URI the runs on a tracking server, through MLflow's Python client\n"
    "  wandb        Weights & Biases, through its Python package, with its login or WANDB_MODE=offline\n"
    "  trackio      Trackio, through its Python package\n\n"
    "wandb and trackio follow a training run until it ends; a repeated call sends only what is missing. WMTP_PYTHON\n"
    "names the Python that has the package (python3).\n\n"
    "examples:\n"
    "  wmtp-host export baseline rho1 --to tensorboard -o board\n"
    "  wmtp-host export 3 4 5 --to mlflow -o mlflow.db\n"
    "  wmtp-host export 3 --to mlflow --push http://127.0.0.1:5000\n"
    "  wmtp-host export rho1 --to wandb\n"
    "  wmtp-host export experiments/baseline.toml experiments/rho1.toml --to csv -o runs.csv\n"
    "  wmtp-host export 3 --to json | python3 -m json.tool\n";

struct Options {
  std::vector<std::string> runs;
  std::string format, target, push_uri;
};

using Writer = void (*)(const LogReader&, const std::vector<int64_t>&, const TextOutput&);

void write_text(const Options& options, const LogReader& log, const std::vector<int64_t>& runs, Writer write) {
  if (options.target.empty()) {
    write(log, runs, [](std::string_view text) { std::cout << text; });
    return;
  }
  OutputFile draft(options.target);
  DurableFile file(draft.path());
  write(log, runs, [&](std::string_view text) { file.write(text); });
  file.finish();
  draft.publish();
}

Writer writer_of(const std::string& format) {
  if (format == "csv") return write_metrics_csv;
  if (format == "json") return write_runs_json;
  return [](const LogReader& log, const std::vector<int64_t>& runs, const TextOutput& out) {
    write_wide_csv(log, runs.front(), out);
  };
}

bool is_tracker(const std::string& format) { return format == "wandb" || format == "trackio"; }

int export_runs(const Options& options, const GlobalOptions& globals) {
  const bool text = options.format == "csv" || options.format == "wide" || options.format == "json";
  if (!options.push_uri.empty() && (options.format != "mlflow" || !options.target.empty()))
    throw Error(ExitStatus::usage, "--push applies only to --to mlflow, and writes no file; remove it, or -o");
  if (is_tracker(options.format) && !options.target.empty())
    throw Error(ExitStatus::usage, "--to " + options.format + " writes no file; remove -o");
  if (!text && !is_tracker(options.format) && options.target.empty() && options.push_uri.empty())
    throw Error(ExitStatus::usage, "--to " + options.format + " needs -o PATH; see `wmtp-host export --help`");
  const LogReader log(globals.database_or(default_database), std::chrono::minutes(10));
  const std::vector<int64_t> runs = selected_runs(log, options.runs, globals);
  if (options.format == "wide" && runs.size() > 1)
    throw Error(ExitStatus::usage, "--to wide writes one run, found " + std::to_string(runs.size()) +
                                       "; export each to a file of its own");
  if (text) {
    write_text(options, log, runs, writer_of(options.format));
  } else if (!options.push_uri.empty()) {
    std::cout << push_mlflow(log, runs, options.push_uri);
  } else if (is_tracker(options.format)) {
    send_to_tracker(log, runs, options.format, [](const std::string& line) { std::cout << line << std::endl; });
  } else if (options.format == "tensorboard") {
    export_tensorboard(log, runs, options.target);
  } else {
    for (const std::string& cut : export_mlflow(log, runs, options.target))
      log_warning(cut + " is longer than MLflow's limit and is cut, ending in …");
  }
  if (!options.target.empty()) log_info("wrote " + options.target);
  return int(ExitStatus::done);
}

}  // namespace

void add_export(CommandLine& line) {
  const auto options = std::make_shared<Options>();
  auto& command = line.add(
      "export", help, reading_log([options](const GlobalOptions& globals) { return export_runs(*options, globals); }));
  add_option(command, "RUN", options->runs, selected_runs_argument, required);
  add_option(command, "--to", options->format, "format",
             CLI::IsMember({"csv", "wide", "json", "tensorboard", "mlflow", "wandb", "trackio"}), required);
  add_option(command, "-o,--output PATH", options->target,
             "file or folder to write; must not exist (default of csv, wide and json: standard output)");
  add_option(command, "--push URI", options->push_uri, "tracking server of MLflow");
}

}  // namespace wmtp
