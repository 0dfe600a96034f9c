#include "evaluate/token_weighing.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "job/engine_process.hpp"
#include "job/find_model.hpp"
#include "job/identity.hpp"
#include "job/input_checks.hpp"
#include "job/reusable_run.hpp"
#include "job/stages.hpp"
#include "job/weighing_job.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// The run of the log in whose folder a model is: runs/3-base, its model/ or a checkpoint in it.
std::optional<int64_t> run_of_folder(const fs::path& folder, const LogReader& log) {
  for (const fs::path& place : {folder, folder.parent_path()}) {
    const std::string name = place.filename().string();
    const auto id = parsed_number(name.substr(0, name.find('-')));
    if (!id || log.query("SELECT 1 FROM runs WHERE id = ?1", {*id}, 1).rows.empty()) continue;
    std::error_code gone;
    if (fs::equivalent(log.run(*id).folder, place, gone)) return id;
  }
  return std::nullopt;
}

/// The request's part that the model's run decides.
void take_run(WeighRequest& request, int64_t run_id, const LogReader& log) {
  const Table run = log.query("SELECT name, resolved_toml FROM runs WHERE id = ?1", {run_id}, 1);
  request.run = "run " + std::to_string(run_id) + " ('" + run.rows.at(0)[0].get<std::string>() + "')";
  request.experiment = run.rows[0][1].get<std::string>();
  request.data_ranks = data_ranks_of(log, run_id);
}

/// The models of the stages that an experiment names itself.
Stages finished_stages(const Experiment& experiment, ExperimentHashes& hashes) {
  Stages stages;
  for (const RunPlan& stage : plan_stages(experiment, hashes, ResumeRule())) {
    if (stage.path.size() != 1) continue;
    if (stage.reused_run == 0)
      throw Error(ExitStatus::data, experiment.file.string() + ": " + stage_title(stage) + " has no finished run in " +
                                        hashes.database().string() +
                                        " with this validation data; run it, or name a model: --set " + stage.path[0] +
                                        ".weights=run:NAME");
    for (const auto& [table, other] : experiment.stages)
      if (hashes.hash(*other) == stage.config_hash) stages[table] = {stage.config_hash, stage.model};
  }
  return stages;
}

std::vector<std::string> weighting_names(const std::vector<std::string>& files) {
  std::vector<std::string> names;
  for (const std::string& file : files) names.push_back(fs::path(file).stem().string());
  return std::set(names.begin(), names.end()).size() == names.size() ? names : files;
}

/// Weightings that read pairs of answers have other sequences.
void check_same_tokens(const Weighing& weighing) {
  const WeighedTokens& first = weighing.tokens.front();
  for (size_t i = 1; i < weighing.tokens.size(); ++i)
    if (weighing.tokens[i].token != first.token || weighing.tokens[i].sequence != first.sequence)
      throw Error(ExitStatus::usage, weighing.names[i] + " and " + weighing.names[0] +
                                         " weigh different tokens, because one of them reads pairs of answers; weigh "
                                         "them one at a time");
}

}  // namespace

Weighing weigh_validation(const std::string& run, const std::vector<std::string>& files,
                          const std::vector<std::string>& overrides, const fs::path& database,
                          const std::vector<fs::path>& plugin_folders) {
  const Catalog catalog(plugin_folders);
  const FoundModel found = find_model(run, database);
  if (!found.note.empty()) log_info(found.note);
  WeighRequest request;
  request.files.assign(files.begin(), files.end());
  request.overrides = overrides;
  request.database = database;
  request.plugin_folders = plugin_folders;
  const LogReader log(database);
  if (const auto id = found.run_id > 0 ? found.run_id : run_of_folder(found.folder, log)) take_run(request, *id, log);
  if (request.experiment.empty())
    log_info(found.folder.string() + " is of no run in " + database.string() +
             ", so that each --pipeline FILE must be a whole experiment");
  if (fs::exists(found.folder / manifest_file_name)) request.step = read_manifest(found.folder).step;
  request.model = ensure_complete_model(found.folder, database, catalog);

  SourceTexts texts;
  ExperimentHashes hashes(catalog, database);
  std::vector<Job> jobs;
  jobs.reserve(files.size());  // the hashes refer to their experiments
  for (size_t i = 0; i < files.size(); ++i) {
    const Experiment& experiment = jobs.emplace_back(weighing_job(request, i, catalog, texts)).experiment;
    request.stages.push_back(finished_stages(experiment, hashes));
    check_inputs(experiment, 1, catalog, hashes, database);
  }
  Weighing weighing{request.run.empty() ? found.folder.string() : request.run, weighting_names(files),
                    weigh_with_engine(request)};
  check_same_tokens(weighing);
  return weighing;
}

}  // namespace wmtp
