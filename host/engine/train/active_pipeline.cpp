#include "engine/train/active_pipeline.hpp"

#include "base/error.hpp"
#include "engine/plugin_runtime/boundary.hpp"
#include "engine/plugin_runtime/loader.hpp"

namespace wmtp {
namespace {

[[noreturn]] void refuse(const std::string& plugin, const std::string& reason) {
  throw Error(ExitStatus::plugin, "pipeline '" + plugin + "': " + reason);
}

bool declares(const Needs& needs, const std::string& value) {
  for (const ValueHead& head : needs.heads)
    if ("value:" + head.name == value) return true;
  return false;
}

void take_read(ActivePipeline& pipeline, const Read& read, const Experiment& experiment) {
  const std::string what = read.model + "." + read.what;
  const bool of_policy = what == "policy.loss" || what == "policy.entropy";
  const bool of_frozen = what == "reference.loss" || what == "reference.entropy" || what == "value.value";
  if (pipeline.objective && (of_policy || of_frozen))
    refuse(pipeline.name, "it reads " + what + "; an objective can only read the value heads that it declares");
  if (what == "reference.loss" || what == "reference.entropy") {
    if (!experiment.reference.given)
      refuse(pipeline.name, "it reads " + what + "; give [reference] experiment or weights");
    pipeline.reference.insert(read.what);
  } else if (what == "value.value") {
    if (!experiment.value.given) refuse(pipeline.name, "it reads " + what + "; give [value] experiment or weights");
    pipeline.value.insert(read.what);
  } else if (of_policy) {
    if (pipeline.needs.when == When::before)
      refuse(pipeline.name, "it reads " + what + ", which is not available at When::before");
    pipeline.reads_entropy |= read.what == "entropy";
  } else if (read.model != "policy" || !declares(pipeline.needs, read.what)) {
    refuse(pipeline.name, "it reads " + what +
                              "; available are policy.loss, policy.entropy, reference.loss, reference.entropy, "
                              "value.value, and policy.value:NAME of a head that it declares");
  }
}

}  // namespace

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
  for (const Read& read : pipeline.needs.reads) take_read(pipeline, read, experiment);
  return pipeline;
}

ActivePipeline open_pipeline(const PluginSetting& plugin, const PluginSetting* inner, const Experiment& experiment) {
  const PluginDescription& description = plugin.description;
  if (description.role == "objective")
    return make_pipeline(description.name, nullptr, create_objective(description, plugin.options), experiment);
  return make_pipeline(description.name, create_weighting(plugin, inner), nullptr, experiment);
}

}  // namespace wmtp
