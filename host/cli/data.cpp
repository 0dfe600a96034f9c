// `data prepare EXPERIMENT`: tokenizer and token files, made before the first run wants them.
#include <memory>

#include "base/log.hpp"
#include "cli/command.hpp"
#include "experiment/load.hpp"
#include "plugin/catalog.hpp"
#include "run/job.hpp"

namespace wmtp {

void add_data(CommandLine& line) {
  struct Options {
    std::string file;
    std::vector<std::string> overrides;
  };
  const auto options = std::make_shared<Options>();
  line.add_group("data", "prepare data");
  auto& prepare = line.add("data prepare",
                           "train the tokenizer and write the token files that an experiment reads\n\n"
                           "examples:\n  wmtp-host data prepare experiments/rho1.toml\n",
                           [options](const GlobalOptions& globals) {
                             const Catalog catalog(globals.plugin_folders);
                             Job job;
                             job.experiment = load_experiment(load_request(catalog, options->file, options->overrides));
                             job.database = globals.database_or(job.experiment.log.database);
                             job.quiet = globals.quiet;
                             job.color = !globals.no_color && stderr_takes_color();
                             job.plugin_folders = globals.plugin_folders;
                             return run_prepare(job);
                           });
  prepare.add_option("EXPERIMENT", options->file, "the experiment's TOML file")->required();
  prepare.add_option("--set", options->overrides, "another value for a key, as in TOML; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

}  // namespace wmtp
