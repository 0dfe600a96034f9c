// `runs list`, `show`, `compare` and `watch` read the run log; `runs delete` and `snapshot` maintain it.
#include "report/runs.hpp"

#include <algorithm>
#include <iostream>
#include <memory>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "cli/log/run_words.hpp"
#include "log/change_run.hpp"
#include "log/log_option.hpp"
#include "log/log_reader.hpp"
#include "log/maintenance.hpp"
#include "report/compare.hpp"
#include "report/terminal.hpp"
#include "report/watch.hpp"

namespace wmtp {
namespace {

/// A word that is the file of an experiment is replaced by the names of its runs: several for a [sweep].
std::vector<std::string> with_names_of_files(const std::vector<std::string>& words, const GlobalOptions& globals,
                                             const LogReader& log) {
  std::vector<std::string> names;
  for (const std::string& word : words) {
    if (!word.ends_with(".toml")) {
      names.push_back(word);
      continue;
    }
    for (const std::string& name : runs_of_file(word, globals).names) {
      if (std::find(names.begin(), names.end(), name) != names.end()) continue;
      if (log.newest_finished(name))
        names.push_back(name);
      else
        log_warning(word + ": no finished run of " + name + " in the log");
    }
  }
  return names;
}

/// The name of a file that is no sweep; any other word as it is.
std::string one_name(const std::string& word, const GlobalOptions& globals, const LogReader& log) {
  const std::vector<std::string> names = with_names_of_files({word}, globals, log);
  if (names.size() == 1) return names.front();
  throw Error(ExitStatus::usage, "--baseline " + word + ": found " +
                                     (names.empty() ? "no finished run" : "a sweep of " + join_names(names)) +
                                     ", wanted one name");
}

/// Checks every run before deleting the first.
int delete_runs(const std::filesystem::path& database, const std::vector<std::string>& words, bool yes) {
  std::vector<RunToDelete> runs;
  {
    const LogReader log(database);
    runs = find_runs_to_delete(log, distinct_runs(log, words));
  }
  for (const RunToDelete& run : runs) {
    const std::string what = what_is_deleted(run);
    if (!yes) {
      std::cerr << what << '\n';
      continue;
    }
    delete_run(database, run);
    log_info("deleted " + what);
  }
  if (!yes) throw Error(ExitStatus::usage, "nothing deleted; add --yes to permanently delete the runs listed above");
  return int(ExitStatus::done);
}

}  // namespace

void add_runs(CommandLine& line) {
  struct Options {
    std::string run, file;
    std::vector<std::string> runs, metrics;
    RunSelection selection;
    std::string baseline;
    bool json = false, yes = false, toml = false, all = false;
  };
  const auto options = std::make_shared<Options>();

  line.add_group("runs", "list, show, compare, watch and delete runs");
  auto& list = line.add("runs list",
                        "list runs, newest first\n\n"
                        "A resumed run is listed once, as its last segment, with the values of all segments.\n\n"
                        "examples:\n"
                        "  wmtp-host runs list --status finished --sort valid_head_1 --limit 5\n"
                        "  wmtp-host runs list --name 'rho1*' --where pipeline.keep=0.6 --json\n",
                        reading_log([options](const GlobalOptions& globals) {
                          const LogReader log(globals.database_or(default_database));
                          const bool is_chosen = !globals.database_or("").empty();
                          if (is_chosen && !log.exists()) throw absent_log(log.database());
                          print_runs_list(std::cout, log, options->json ? TableFormat::json : TableFormat::text,
                                          options->selection);
                          return 0;
                        }));
  RunSelection& selection = options->selection;
  add_option(list, "--status STATUS", selection.statuses, "may be repeated",
             CLI::IsMember({"running", "finished", "failed", "interrupted", "lost"}), repeatable);
  add_option(list, "--name PATTERN", selection.name, "name, with wildcards * and ?");
  add_option(list, "--pipeline NAME", selection.pipeline, "pipeline plugin");
  add_option(list, "--tag TAG", selection.tags, "may be repeated, then all must be set", repeatable);
  add_option(list, "--where KEY=VALUE", selection.where, "value in the experiment; may be repeated", repeatable);
  add_option(list, "--sort COLUMN", selection.sort, "smallest first", CLI::IsMember(sort_keys()));
  list.add_flag("--reverse", selection.reverse, "reverse the order");
  add_option(list, "--limit N", selection.limit,
             "maximum number of runs (default " + std::to_string(listed_runs) + "; all with --json)",
             CLI::Range(1, 100'000));
  list.add_flag("--segments", selection.segments, "also runs that a later run resumed");
  list.add_flag("--archived", selection.archived, "also archived runs");
  list.add_flag("--json", options->json, "print JSON");

  auto& show = line.add("runs show",
                        "show a run: configuration, metrics, curves, memory, checkpoints, evaluations, events\n\n"
                        "examples:\n"
                        "  wmtp-host runs show 3\n"
                        "  wmtp-host runs show rho1 --curve rho1/ce_selected --curve train/grad_norm\n"
                        "  wmtp-host runs show rho1 --toml > again.toml\n",
                        reading_log([options](const GlobalOptions& globals) {
                          const LogReader log(globals.database_or(default_database));
                          const int64_t run = log.resolve_run(options->run);
                          if (options->toml) {
                            print_experiment(std::cout, log, run);
                          } else {
                            print_run(std::cout, log, run, options->json, options->metrics);
                          }
                          return 0;
                        }));
  add_option(show, "RUN", options->run, run_argument, required);
  auto* json = show.add_flag("--json", options->json, "print JSON");
  auto* toml = show.add_flag("--toml", options->toml, "print only the resolved experiment")->excludes(json);
  add_option(show, "--curve METRIC", options->metrics, "draw this metric instead of the losses; may be repeated",
             repeatable)
      ->excludes(json)
      ->excludes(toml);

  auto& compare =
      line.add("runs compare",
               "compare the configurations and metrics of runs\n\n"
               "A name selects its newest finished run of each seed, the name or file of a sweep its runs. With\n"
               "several seeds, figures are means with standard errors, and differences from the first name, or from\n"
               "--baseline, are taken within the same seed.\n\n"
               "examples:\n"
               "  wmtp-host runs compare baseline rho1 random --json\n"
               "  wmtp-host runs compare experiments/rho1.toml random --baseline experiments/baseline.toml\n",
               reading_log([options](const GlobalOptions& globals) {
                 const LogReader log(globals.database_or(default_database));
                 ComparisonRequest request{.words = with_names_of_files(options->runs, globals, log)};
                 if (!options->baseline.empty()) request.baseline = one_name(options->baseline, globals, log);
                 request.as_json = options->json;
                 request.all = options->all;
                 if (const size_t columns = terminal_columns(std::cout); columns > 0) request.columns = columns;
                 print_comparison(std::cout, log, request);
                 return 0;
               }));
  add_option(compare, "RUN", options->runs, "run ids, names, or sweeps; two or more runs in total", required);
  add_option(compare, "--baseline RUN", options->baseline,
             "compare the others with this run, name or file (default: the first)");
  compare.add_flag("--all", options->all, "also show time/ and perf/");
  compare.add_flag("--json", options->json, "print JSON");

  auto& watch = line.add("runs watch",
                         "follow a run's steps until it ends\n\n"
                         "Exits with the run's exit code, or with 6 if the run is lost.\n\n"
                         "example:\n"
                         "  wmtp-host runs watch rho1 --json\n",
                         reading_log([options](const GlobalOptions& globals) {
                           const LogReader log(globals.database_or(default_database));
                           WatchRequest request;
                           request.run_id = log.resolve_run(options->run);
                           request.json = options->json;
                           return watch_run(std::cout, log, request);
                         }));
  add_option(watch, "RUN", options->run, run_argument, required);
  watch.add_flag("--json", options->json, "print one JSON object per step");

  auto& remove = line.add("runs delete",
                          "delete runs and their folders\n\n"
                          "A resumed run is deleted with all its segments, whichever is named.\n\n"
                          "examples:\n"
                          "  wmtp-host runs delete 3\n"
                          "  wmtp-host runs delete 3 4 --yes\n",
                          [options](const GlobalOptions& globals) {
                            return delete_runs(globals.database_or(default_database), options->runs, options->yes);
                          });
  add_option(remove, "RUN", options->runs, runs_argument, required);
  remove.add_flag("--yes", options->yes, "delete; without it, only list what would be deleted");

  auto& snapshot = line.add("runs snapshot",
                            "copy the run log to one file, even while runs write to it\n\n"
                            "example:\n  wmtp-host runs snapshot monday.db\n",
                            [options](const GlobalOptions& globals) {
                              snapshot_log(globals.database_or(default_database), options->file);
                              log_info("wrote " + options->file);
                              return 0;
                            });
  add_option(snapshot, "FILE", options->file, "file to write; must not exist", required);
}

}  // namespace wmtp
