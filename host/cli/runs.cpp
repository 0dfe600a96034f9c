// `runs list`, `show`, `compare` and `watch`: what the log knows. `runs delete` and `snapshot`: what is done with it.
#include "core/report/runs.hpp"

#include <iostream>
#include <memory>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "cli/command.hpp"
#include "core/job/delete_run.hpp"
#include "core/report/compare.hpp"
#include "core/report/watch.hpp"
#include "core/runlog/log_reader.hpp"
#include "core/runlog/upkeep.hpp"

namespace wmtp {
namespace {

/// Each is looked at before the first is deleted.
int delete_runs(const std::filesystem::path& database, const std::vector<std::string>& words, bool yes) {
  std::vector<DeletableRun> runs;
  {
    const LogReader log(database);
    for (const std::string& word : words) runs.push_back(deletable_run(log, log.resolve_run(word)));
  }
  for (const DeletableRun& run : runs) {
    const std::string what = "run " + std::to_string(run.id) + " (" + run.name + "): its rows and " +
                             human_bytes(run.bytes) + " in " + run.folder.string();
    if (!yes) {
      std::cerr << what << '\n';
      continue;
    }
    delete_run(database, run);
    log_info("deleted " + what);
  }
  if (!yes) throw Error(ExitStatus::usage, "nothing is deleted yet: say --yes to delete what is listed, for good");
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

void add_runs(CommandLine& line) {
  struct Options {
    std::string run, file;
    std::vector<std::string> runs, metrics;
    RunSelection selection;
    bool json = false, yes = false, toml = false;
  };
  const auto options = std::make_shared<Options>();
  const auto format = [options] { return options->json ? TableFormat::json : TableFormat::text; };

  line.add_group("runs", "read the run log");
  auto& list = line.add("runs list",
                        "list the runs of the log, newest first\n\n"
                        "examples:\n  wmtp-host runs list\n"
                        "  wmtp-host runs list --status finished --sort valid_loss --limit 5\n"
                        "  wmtp-host runs list --name 'rho1*' --where pipeline.keep=0.6 --json\n",
                        reading_log([options, format](const GlobalOptions& globals) {
                          print_runs_list(std::cout, LogReader(globals.database_or(default_database)), format(),
                                          options->selection);
                          return 0;
                        }));
  RunSelection& selection = options->selection;
  list.add_option("--status", selection.statuses, "running, finished, failed, interrupted or lost; may be repeated")
      ->check(CLI::IsMember({"running", "finished", "failed", "interrupted", "lost"}))
      ->type_name("STATUS")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  list.add_option("--name", selection.name, "a name, in which * and ? stand for anything")->type_name("PATTERN");
  list.add_option("--pipeline", selection.pipeline, "runs of this plugin")->type_name("NAME");
  list.add_option("--where", selection.where, "runs whose experiment has that, as pipeline.keep=0.6; may be repeated")
      ->type_name("KEY=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  list.add_option("--sort", selection.sort, "by this column, smallest first: " + join_names(sort_keys()))
      ->check(CLI::IsMember(sort_keys()))
      ->type_name("COLUMN");
  list.add_flag("--reverse", selection.reverse, "the other way round");
  list.add_option("--limit", selection.limit, "that many at most")->type_name("N")->check(CLI::Range(1, 100'000));
  list.add_flag("--json", options->json, "as JSON");

  auto& show = line.add("runs show",
                        "show one run: configuration, metrics, curves, memory, checkpoints, evaluations, events\n\n"
                        "examples:\n  wmtp-host runs show 3\n  wmtp-host runs show rho1 --json\n"
                        "  wmtp-host runs show rho1 --curve rho1/ce_selected --curve train/grad_norm\n"
                        "  wmtp-host runs show rho1 --toml > again.toml\n",
                        reading_log([options, format](const GlobalOptions& globals) {
                          const LogReader log(globals.database_or(default_database));
                          const int64_t run = log.resolve_run(options->run);
                          if (options->toml) {
                            print_experiment(std::cout, log, run);
                          } else {
                            print_run(std::cout, log, run, format(), options->metrics);
                          }
                          return 0;
                        }));
  show.add_option("RUN", options->run, "its number, or its name (the newest of that name)")->required();
  auto* json = show.add_flag("--json", options->json, "as JSON");
  auto* toml = show.add_flag("--toml", options->toml, "its experiment alone, every key resolved")->excludes(json);
  show.add_option("--curve", options->metrics, "draw this metric, instead of the losses; may be repeated")
      ->type_name("METRIC")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->excludes(json)
      ->excludes(toml);

  auto& compare =
      line.add("runs compare",
               "compare runs: where their experiments differ, and what came of it\n\n"
               "A name stands for the newest finished run of each seed under it. Where there are several, figures are "
               "means with\n"
               "standard errors, and differences from the first are taken within the same seed.\n\n"
               "examples:\n  wmtp-host runs compare 3 4\n  wmtp-host runs compare baseline rho1 random --json\n",
               reading_log([options, format](const GlobalOptions& globals) {
                 print_comparison(std::cout, LogReader(globals.database_or(default_database)), options->runs, format());
                 return 0;
               }));
  compare.add_option("RUN", options->runs, "numbers or names, two or more")->required();
  compare.add_flag("--json", options->json, "as JSON");

  auto& watch = line.add("runs watch",
                         "follow a run: its steps as they come into the log, until it ends\n\n"
                         "The exit code is the run's; 6 where it is lost.\n\n"
                         "examples:\n  wmtp-host runs watch 3\n  wmtp-host runs watch rho1 --json\n",
                         reading_log([options](const GlobalOptions& globals) {
                           const LogReader log(globals.database_or(default_database));
                           WatchRequest request;
                           request.run_id = log.resolve_run(options->run);
                           request.json = options->json;
                           return watch_run(std::cout, log, request);
                         }));
  watch.add_option("RUN", options->run, "its number, or its name (the newest of that name)")->required();
  watch.add_flag("--json", options->json, "an object for each step, one to a line");

  auto& remove = line.add("runs delete",
                          "delete runs from the log, with their folders\n\n"
                          "examples:\n  wmtp-host runs delete 3\n  wmtp-host runs delete 3 4 --yes\n",
                          [options](const GlobalOptions& globals) {
                            return delete_runs(globals.database_or(default_database), options->runs, options->yes);
                          });
  remove.add_option("RUN", options->runs, "numbers, or names (the newest of each)")->required();
  remove.add_flag("--yes", options->yes, "do it; without, it is only told what would go");

  auto& snapshot = line.add("runs snapshot",
                            "copy the log into one file, while runs may be writing to it\n\n"
                            "example:\n  wmtp-host runs snapshot monday.db\n",
                            [options](const GlobalOptions& globals) {
                              snapshot_log(globals.database_or(default_database), options->file);
                              log_info("wrote " + options->file);
                              return 0;
                            });
  snapshot.add_option("FILE", options->file, "the copy, which must not be there yet")->required();
}

}  // namespace wmtp
