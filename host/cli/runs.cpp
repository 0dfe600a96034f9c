// `runs list` and `runs show RUN`: what the log knows.
#include "report/runs.hpp"

#include <iostream>
#include <memory>

#include "cli/command.hpp"
#include "log/log_reader.hpp"

namespace wmtp {

void add_runs(CommandLine& line) {
  struct Options {
    std::string run;
    bool json = false;
  };
  const auto options = std::make_shared<Options>();
  const auto format = [options] { return options->json ? TableFormat::json : TableFormat::text; };

  line.add_group("runs", "read the run log");
  auto& list = line.add("runs list",
                        "list the runs of the log, newest first\n\n"
                        "examples:\n  wmtp-host runs list\n  wmtp-host runs list --db other.db --json\n",
                        [format](const GlobalOptions& globals) {
                          print_runs_list(std::cout, LogReader(globals.database_or(default_database)), format());
                          return 0;
                        });
  list.add_flag("--json", options->json, "as JSON");

  auto& show = line.add("runs show",
                        "show one run: configuration, metrics, memory, checkpoints, events\n\n"
                        "examples:\n  wmtp-host runs show 3\n  wmtp-host runs show rho1 --json\n",
                        [options, format](const GlobalOptions& globals) {
                          const LogReader log(globals.database_or(default_database));
                          print_run(std::cout, log, log.resolve_run(options->run), format());
                          return 0;
                        });
  show.add_option("RUN", options->run, "its number, or its name (the newest of that name)")->required();
  show.add_flag("--json", options->json, "as JSON");
}

}  // namespace wmtp
