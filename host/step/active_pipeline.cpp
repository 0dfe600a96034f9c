#include "step/active_pipeline.hpp"

#include <algorithm>
#include <iterator>

#include "base/error.hpp"
#include "plugins/torch/boundary.hpp"
#include "plugins/torch/loader.hpp"
#include "plugins/torch/signals.hpp"

namespace wmtp {
namespace {

[[noreturn]] void refuse(const std::string& plugin, const std::string& reason) {
  throw Error(ExitStatus::plugin, "pipeline '" + plugin + "': " + reason);
}

void take_signal(ActivePipeline& pipeline, Signal signal, const Experiment& experiment) {
  const std::string name = to_text(signal);
  if (pipeline.objective)
    refuse(pipeline.name, "it reads " + name + "; an objective can only read the value heads that it declares");
  if (is_reference_signal(signal)) {
    if (!experiment.reference.given)
      refuse(pipeline.name, "it reads " + name + "; set [reference] experiment or weights");
    pipeline.frozen["reference"].insert(signal == Signal::reference_loss ? "loss" : "entropy");
    return;
  }
  if (pipeline.needs.when == When::before && is_policy_signal(signal))
    refuse(pipeline.name, "it reads " + name + ", which is not available at When::before");
}

void take_reference(ActivePipeline& pipeline, const ReferenceSignal& signal, const Experiment& experiment) {
  const std::string name = to_text(signal), table = reference_table(signal.name);
  if (pipeline.objective)
    refuse(pipeline.name, "it reads " + name + "; an objective can only read the value heads that it declares");
  if (!experiment.references.contains(signal.name))
    refuse(pipeline.name, "it reads " + name + "; set [" + table + "] experiment or weights");
  pipeline.frozen[table].insert(signal.signal == Signal::reference_loss ? "loss" : "entropy");
}

void take_value(ActivePipeline& pipeline, const ValueSignal& value, const Experiment& experiment) {
  const std::string name = to_text(value);
  if (value.is_frozen()) {
    if (pipeline.objective)
      refuse(pipeline.name, "it reads " + name + "; an objective can only read the value heads that it declares");
    if (!experiment.value.given) refuse(pipeline.name, "it reads " + name + "; set [value] experiment or weights");
    pipeline.frozen["value"].insert("value");
    return;
  }
  if (pipeline.needs.when == When::token)
    refuse(pipeline.name, "it reads " + name + ", which a TokenStep does not have; choose a later When");
  for (const ValueHead& head : pipeline.needs.heads)
    if (head.name == value.head()) return;
  refuse(pipeline.name, "it reads " + name + ", a value head that it does not declare");
}

}  // namespace

bool ActivePipeline::reads(Signal signal) const { return std::ranges::count(needs.reads, signal) > 0; }

std::vector<Signal> ActivePipeline::data_signals() const {
  std::vector<Signal> signals;
  std::ranges::copy_if(needs.reads, std::back_inserter(signals), is_data_signal);
  return signals;
}

ActivePipeline make_pipeline(const std::string& name, std::unique_ptr<Weighting> weighting,
                             std::unique_ptr<Objective> objective, const Experiment& experiment) {
  ActivePipeline pipeline;
  pipeline.name = name;
  pipeline.weighting = std::move(weighting);
  pipeline.objective = std::move(objective);
  pipeline.needs = guarded(
      name, "needs", [&] { return pipeline.objective ? pipeline.objective->needs() : pipeline.weighting->needs(); });
  if (pipeline.objective && pipeline.needs.heads.empty())
    refuse(name, "the objective declares no value head, so there is nothing to train");
  for (const Signal signal : pipeline.needs.reads) take_signal(pipeline, signal, experiment);
  for (const ReferenceSignal& signal : pipeline.needs.references) take_reference(pipeline, signal, experiment);
  for (const ValueSignal& value : pipeline.needs.values) take_value(pipeline, value, experiment);
  return pipeline;
}

ActivePipeline open_pipeline(const PluginSetting& plugin, const PluginSetting* inner, const Experiment& experiment) {
  const PluginDescription& description = plugin.description;
  if (description.role == PluginRole::objective)
    return make_pipeline(description.name, nullptr, create_objective(description, plugin.options), experiment);
  return make_pipeline(description.name, create_weighting(plugin, inner), nullptr, experiment);
}

void add_auxiliary_loss(const PluginSetting& plugin, const Experiment& experiment, ActivePipeline& pipeline) {
  add_auxiliary_loss(plugin.description.name, create_auxiliary_loss(plugin.description, plugin.options), experiment,
                     pipeline);
}

void add_auxiliary_loss(const std::string& name, std::unique_ptr<AuxiliaryLoss> loss, const Experiment& experiment,
                        ActivePipeline& pipeline) {
  ActiveAuxiliaryLoss& active = pipeline.auxiliary_loss.emplace();
  active.name = name;
  active.loss = std::move(loss);
  active.needs = guarded(name, "needs", [&] { return active.loss->needs(); });
  const int64_t heads = experiment.model.future_tokens;
  for (int64_t k = 1; k <= heads; ++k)
    if (guarded(name, "applies", [&] { return active.loss->applies(k); })) active.heads.insert(k);
  if (active.heads.empty())
    throw Error(ExitStatus::plugin, "auxiliary loss '" + name + "' applies to none of the heads: found [model] " +
                                        "future_tokens = " + std::to_string(heads) + "; raise it, or remove " +
                                        "[auxiliary_loss]");
  if (active.needs.reference) pipeline.frozen["reference"].insert("hidden");
}

}  // namespace wmtp
