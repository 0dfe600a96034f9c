#include "experiment/load/load.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "base/normal_path.hpp"
#include "experiment/load/rules.hpp"
#include "experiment/load/stage_rules.hpp"

namespace wmtp {
namespace {

using Chain = std::vector<std::filesystem::path>;  ///< files from the first experiment to the current stage

class Loader {
 public:
  Loader(const LoadRequest& request, SourceTexts& texts)
      : describe_(request.describe_plugin),
        check_(request.check_plugin),
        read_weights_shape_(request.read_weights_shape),
        default_validation_(request.default_validation),
        texts_(texts) {}

  struct Loaded {
    Experiment experiment;
    std::optional<PluginNeeds> needs;
  };
  /// The experiment is complete only if no error was added.
  Loaded load(const LoadRequest& request, const Chain& chain) {
    const auto [source, document] = read_document(request.file, request.overrides, texts_, diagnostics_, request.past);
    if (!document) return {};
    if (const Entry* const study = document->find("study")) {
      diagnostics_.add(study->position, "found [study], which names experiments and is none itself",
                       "train it with `wmtp-host study FILE`");
      return {};
    }

    const size_t before = diagnostics_.count();
    if (const Entry* sweep = document->find("sweep"); sweep && chain.size() > 1)
      diagnostics_.add(sweep->position, "found [sweep] in a stage, which must be a single run",
                       "write a stage file for each value; the [sweep] of the experiment can list these files");
    BoundExperiment bound = bind(*document, source, diagnostics_);
    Experiment& e = bound.experiment;
    e.file = absolute_path(request.file);
    e.source = texts_.text(request.file);
    e.name += request.name_suffix;
    for (const auto& [key, position] : bound.values) e.origins[key] = diagnostics_.origin_text(position);
    const auto needs = bind_plugins(*document, describe_, check_, bound, diagnostics_);
    take_shape_of_weights(bound);
    resolve_defaults(bound);
    check_rules(bound, needs, diagnostics_);
    hold_out(e, request);
    load_stages(bound, needs, request, chain, diagnostics_.count() == before);
    return {e, needs};
  }

  Diagnostics& diagnostics() { return diagnostics_; }

 private:
  void take_shape_of_weights(BoundExperiment& bound) {
    const ModelConfig& model = bound.experiment.model;
    if (!bound.has("model.weights")) return;
    std::optional<ModelConfig> shape;
    const bool has_weights = !model.weights.empty() && model.experiment.empty();
    try {
      if (has_weights && read_weights_shape_) shape = read_weights_shape_(bound.experiment);
    } catch (const Error&) {
      // With a shape of its own the experiment is complete, and the checks of its inputs report the error.
      if (!bound.has("model.dim") || !bound.has("model.layers") || !bound.has("model.heads")) {
        diagnostics_.raise();
        throw;
      }
    }
    fill_shape(bound, shape, diagnostics_);
  }

  /// Text and token ids are held out by file or by the end of each file; records by problem, because other files may
  /// contain the same problems.
  static void hold_out(Experiment& e, const LoadRequest& request) {
    if (e.data.kind == DataKind::random) return;
    const bool has_records = e.data.kind == DataKind::records;
    std::vector<std::string>& held_out = has_records ? e.data.hold_out : e.data.exclude;
    for (const HeldOutFiles& files : request.held_out) {
      const auto known = [&](const std::string& one) { return e.resolve(one) == files.pattern; };
      if (files.has_records == has_records && std::none_of(held_out.begin(), held_out.end(), known))
        held_out.push_back(files.pattern);
    }
    if (has_records && request.hold_out_problems) e.data.hold_out_problems = true;
    if (!has_records) e.data.hold_out_share = std::max(e.data.hold_out_share, request.hold_out_share);
  }

  /// What a stage of `e` does not train on. `is_good`: no error was found in `e`.
  std::vector<HeldOutFiles> held_out_of_stages(const Experiment& e, const LoadRequest& parent, bool is_good) const {
    std::vector<HeldOutFiles> held_out = parent.held_out;
    const bool has_records = e.data.kind == DataKind::records;
    for (const auto* patterns : {&e.validation.files, &e.data.hold_out})
      for (const std::string& pattern : *patterns) held_out.push_back({e.resolve(pattern).string(), has_records});
    const bool is_default = e.validation.given && e.validation.files.empty() && e.validation.share == 0;
    if (is_default && is_good && !has_records && e.data.kind != DataKind::random && default_validation_)
      for (const std::string& file : default_validation_(e)) held_out.push_back({file});
    return held_out;
  }

  /// Tables that name the same file share one stage.
  void load_stages(BoundExperiment& bound, const std::optional<PluginNeeds>& needs, const LoadRequest& parent,
                   const Chain& chain, bool is_parent_good) {
    Experiment& e = bound.experiment;
    std::map<std::filesystem::path, LoadedStage> loaded;
    std::vector<std::pair<std::string, std::string>> named{{"model", e.model.experiment}};
    for (const auto& [table, frozen] : frozen_tables(e)) named.emplace_back(table, frozen->experiment);
    std::erase_if(named, [](const auto& one) { return one.second.empty(); });
    if (named.empty()) return;
    const std::vector<HeldOutFiles> held_out = held_out_of_stages(e, parent, is_parent_good);
    for (const auto& [table, file] : named) {
      const TomlPosition position = bound.position(table + ".experiment");
      LoadRequest request;
      request.file = parent.file.parent_path() / file;
      request.held_out = held_out;
      const bool by_problem = e.data.kind == DataKind::records && e.validation.given && e.validation.files.empty();
      request.hold_out_problems = parent.hold_out_problems || e.data.hold_out_problems || by_problem;
      request.hold_out_share = std::max(parent.hold_out_share, held_out_share(e));

      const auto canonical = std::filesystem::weakly_canonical(std::filesystem::absolute(request.file));
      auto stage = loaded.find(canonical);
      if (stage == loaded.end())
        stage = loaded.emplace(canonical, load_stage(request, chain, canonical, position)).first;
      if (!stage->second.experiment) continue;
      if (is_parent_good && stage->second.is_good)
        check_stage(bound, {table, has_objective(e), needs && needs->scores}, stage->second, diagnostics_);
      e.stages[table] = stage->second.experiment;
    }
  }

  /// Has no experiment if the file is unreadable or part of a cycle.
  LoadedStage load_stage(const LoadRequest& request, Chain chain, const std::filesystem::path& canonical,
                         TomlPosition position) {
    if (std::find(chain.begin(), chain.end(), canonical) != chain.end()) {
      std::string names;
      for (const auto& file : chain) names += file.filename().string() + " > ";
      diagnostics_.add(position, "the stages form a cycle: " + names + canonical.filename().string(),
                       "a stage is trained before the experiment that names it; remove one of these references");
      return {};
    }
    chain.push_back(canonical);
    try {
      texts_.text(request.file);
    } catch (const Error& error) {
      diagnostics_.add(position, error.what());
      return {};
    }
    const size_t before = diagnostics_.count();
    Loaded stage = load(request, chain);
    const bool is_good = diagnostics_.count() == before;
    const bool trains_objective = is_good && has_objective(stage.experiment);
    return {std::make_shared<const Experiment>(std::move(stage.experiment)), std::move(stage.needs), is_good,
            trains_objective};
  }

  bool has_objective(const Experiment& e) const {
    return describe_(PluginKind::pipeline, e.pipeline.plugin).role == PluginRole::objective;
  }

  const DescribePlugin& describe_;
  const CheckPlugin& check_;
  const ReadWeightsShape& read_weights_shape_;
  const DefaultValidation& default_validation_;
  SourceTexts& texts_;
  Diagnostics diagnostics_;
};

}  // namespace

Experiment load_experiment(const LoadRequest& request) {
  SourceTexts own_texts;
  SourceTexts& texts = request.texts ? *request.texts : own_texts;
  Loader loader(request, texts);
  const Chain chain{std::filesystem::weakly_canonical(std::filesystem::absolute(request.file))};
  Experiment experiment = loader.load(request, chain).experiment;
  loader.diagnostics().raise();
  return experiment;
}

}  // namespace wmtp
