#include "job/weighing_job.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "base/normal_path.hpp"
#include "experiment/load/load.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {
namespace {

/// Leaves what decides the numbers of a single process.
ParallelConfig single_process(const ParallelConfig& given) {
  ParallelConfig parallel;
  parallel.precision = given.precision;
  parallel.device = given.device;
  return parallel;
}

}  // namespace

Job weighing_job(const WeighRequest& request, size_t file, const Catalog& catalog, SourceTexts& texts) {
  LoadRequest load = load_request(catalog, request.files.at(file), request.overrides);
  const PastExperiment past{request.run, request.experiment};
  load.texts = &texts;
  if (!request.experiment.empty()) load.past = &past;
  Experiment e = load_experiment(load);
  if (catalog.describe(PluginKind::pipeline, e.pipeline.plugin).role == PluginRole::objective)
    throw Error(ExitStatus::usage, e.file.string() + ": [pipeline] plugin = \"" + e.pipeline.plugin +
                                       "\" trains value heads and gives tokens no weights; wanted a weighting");
  if (std::ranges::count(pipeline_needs(e, catalog).reads, previous_loss) > 0)
    throw Error(ExitStatus::usage, e.file.string() + ": [pipeline] plugin = \"" + e.pipeline.plugin + "\" reads " +
                                       previous_loss +
                                       ", which only a training has, of the tokens that it trains on; wanted a "
                                       "weighting that does not read it");
  if (!e.validation.given)
    throw Error(ExitStatus::usage, (request.run.empty() ? e.file.string() : request.run) +
                                       " has no validation data, whose tokens are weighed; state them with --set "
                                       "validation.files='[\"FILE\"]' or validation.share=0.05");
  e.model.experiment.clear();
  e.model.weights = absolute_path(request.model).string();
  e.stages.erase("model");
  e.adapter = {frozen_adapter, {}, {}};
  e.adapter_weights.clear();
  e.trained_parts = {};
  e.parallel = single_process(e.parallel);
  Job job{{}, std::move(e)};
  job.file = request.files[file].string();
  job.database = request.database;
  job.plugin_folders = request.plugin_folders;
  if (file < request.stages.size()) job.stages = request.stages[file];
  return job;
}

}  // namespace wmtp
