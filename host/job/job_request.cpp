#include "job/job_request.hpp"

#include "base/environment.hpp"
#include "base/error.hpp"
#include "base/files.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "base/utf8.hpp"
#include "data/tokens/corpus.hpp"
#include "experiment/load/load.hpp"
#include "huggingface/hf_config.hpp"
#include "huggingface/initial_weights.hpp"
#include "job/named_weights.hpp"
#include "job/stages.hpp"
#include "plugins/probe.hpp"

namespace wmtp {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(Restart, number, reason, lost_since_ns)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(JobRequest, command, file, overrides, name, name_suffix, nproc, resume, max_restarts,
                                   stage, stages, from, restart, sources, database, plugin_folders, quiet, no_color)

namespace {

std::vector<std::string> all_overrides(const JobRequest& request) {
  auto overrides = request.overrides;
  if (request.nproc > 0) overrides.push_back("parallel.processes=" + std::to_string(request.nproc));
  check_is_utf8(request.name, "--name");
  // A JSON string is a TOML basic string.
  if (!request.name.empty()) overrides.push_back("name=" + Json(request.name).dump());
  return overrides;
}

}  // namespace

std::string to_text(const JobRequest& request) {
  check_is_utf8(request.file, "the experiment");
  check_is_utf8(request.name, "--name");
  for (const std::string& override : request.overrides) check_is_utf8(override, "--set");
  for (const auto& folder : request.plugin_folders) check_is_utf8(folder.string(), "--plugin-dir");
  JobRequest sent = request;
  sent.command = repaired_utf8(request.command);  // only shown
  try {
    return Json(sent).dump();
  } catch (const Json::type_error&) {
    throw Error(ExitStatus::usage,
                "the path of the run log, of the temporary folder or of a run to resume is not UTF-8; rename it, or "
                "choose another by --db or TMPDIR");
  }
}

JobRequest job_request_from(const std::string& text) {
  try {
    return Json::parse(text).get<JobRequest>();
  } catch (const std::exception& error) {
    throw Error(ExitStatus::bug, std::string("this is not a request of wmtp-host: ") + error.what());
  }
}

std::filesystem::path chosen_database(const std::filesystem::path& given, const std::filesystem::path& otherwise) {
  const std::string variable = environment_value("WMTP_DB");
  const bool is_set = given.empty() && !variable.empty();
  if (given.empty() && !is_set) return otherwise;
  const std::filesystem::path chosen = is_set ? std::filesystem::path(variable) : given;
  check_is_utf8(chosen.string(), is_set ? "WMTP_DB" : "--db");
  return chosen;
}

LoadRequest load_request(const Catalog& catalog, std::filesystem::path file, std::vector<std::string> overrides) {
  LoadRequest request;
  request.file = std::move(file);
  request.overrides = std::move(overrides);
  request.describe_plugin = [&catalog](PluginKind kind, const std::string& name) {
    return catalog.describe(kind, name);
  };
  request.check_plugin = check_plugin;
  request.read_weights_shape = [](const Experiment& experiment) -> std::optional<ModelConfig> {
    const std::string& weights = experiment.model.weights;
    if (weights.starts_with("run:")) return std::nullopt;  // that run may be trained later
    const std::filesystem::path found = resolve_weights(weights, experiment, {});
    return std::filesystem::is_directory(found) ? stated_shape(found) : std::nullopt;  // [model] states that of a file
  };
  request.default_validation = [](const Experiment& experiment) {
    std::vector<std::string> files;
    try {
      for (const std::filesystem::path& file : split_text(experiment).validation) files.push_back(file.string());
    } catch (const Error& error) {
      if (error.status() != ExitStatus::data) throw;  // of data that are not here; the checks of inputs report it
    }
    return files;
  };
  return request;
}

Job make_job(const JobRequest& request, const Catalog& catalog, SourceTexts& texts) {
  LoadRequest load = load_request(catalog, request.file, all_overrides(request));
  load.name_suffix = request.name_suffix;
  load.texts = &texts;
  Job job{request, load_experiment(load)};
  if (!request.stage.empty()) {
    const Experiment stage = experiment_at(job.experiment, request.stage);
    job.experiment = stage;
    job.experiment.parallel.processes = num_processes(stage, request.nproc);
  }
  job.database = chosen_database(request.database, job.experiment.log.database);
  return job;
}

void adopt_world_size(const JobRequest& request, int64_t world_size, const std::string& launcher,
                      Experiment& experiment) {
  const bool is_stated = request.nproc > 0 || experiment.origins.count("parallel.processes") > 0;
  if (is_stated && experiment.parallel.processes != world_size) {
    throw Error(ExitStatus::usage, launcher + " started " + counted(world_size, "process", "es") + ", but " +
                                       (request.nproc > 0 ? "--nproc" : "processes in [parallel]") + " is " +
                                       std::to_string(experiment.parallel.processes) +
                                       "; make them equal, or leave the latter out");
  }
  experiment.parallel.processes = world_size;
}

}  // namespace wmtp
