#include "cli/run_options.hpp"

#include <toml++/toml.h>

#include <nlohmann/json.hpp>

#include "base/counted.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "core/config/load.hpp"
#include "core/job/stages.hpp"

namespace wmtp {
namespace {

std::vector<std::string> all_overrides(const RunOptions& options) {
  auto overrides = options.overrides;
  if (options.nproc > 0) overrides.push_back("parallel.processes=" + std::to_string(options.nproc));
  // JSON's strings are TOML's basic strings.
  if (!options.name.empty()) overrides.push_back("name=" + nlohmann::json(options.name).dump());
  return overrides;
}

bool writes_processes(const std::string& text) {
  const auto table = toml::parse(text);
  return static_cast<bool>(table["parallel"]["processes"]);
}

}  // namespace

void agree_on_processes(const RunOptions& options, int64_t world_size, Experiment& experiment) {
  bool written = options.nproc > 0 || writes_processes(experiment.source);
  for (const auto& text : options.overrides) written = written || writes_processes(text);
  if (written && experiment.parallel.processes != world_size) {
    throw Error(ExitStatus::usage,
                "the launcher started " + counted(world_size, "process", "es") + " (WORLD_SIZE), but " +
                    (options.nproc > 0 ? "--nproc" : "processes in [parallel]") + " is " +
                    std::to_string(experiment.parallel.processes) + "; make them equal, or leave the latter out");
  }
  experiment.parallel.processes = world_size;
}

Job make_job(const RunOptions& options, const GlobalOptions& globals, const Catalog& catalog, SourceTexts& texts) {
  Job job;
  LoadRequest request = load_request(catalog, options.file, all_overrides(options), options.held_out);
  request.hold_out_problems = options.hold_out_problems;
  request.hold_out_share = options.hold_out_share;
  request.name_suffix = options.name_suffix;
  request.texts = &texts;
  job.experiment = load_experiment(request);
  if (!options.stages.empty()) job.stages = stages_from_text(options.stages);
  job.database = globals.database_or(job.experiment.log.database);
  job.resume = options.resume;
  job.quiet = globals.quiet;
  job.color = !globals.no_color && stderr_takes_color();
  job.plugin_folders = globals.plugin_folders;
  return job;
}

}  // namespace wmtp
