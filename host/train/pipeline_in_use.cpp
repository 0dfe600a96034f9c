#include "train/pipeline_in_use.hpp"

#include "base/error.hpp"
#include "plugin/boundary.hpp"
#include "plugin/loader.hpp"

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

}  // namespace

PipelineInUse open_pipeline(const PluginSetting& plugin, const PluginSetting* inner, bool has_reference) {
  const PluginDescription& description = plugin.description;
  PipelineInUse pipeline;
  pipeline.name = description.name;
  const bool is_objective = description.role == "objective";
  if (is_objective)
    pipeline.objective = create_objective(description, plugin.options);
  else
    pipeline.weighting = create_weighting(plugin, inner);
  pipeline.needs = guarded(description.name, "needs",
                           [&] { return is_objective ? pipeline.objective->needs() : pipeline.weighting->needs(); });

  if (!is_objective && !pipeline.needs.heads.empty())
    refuse(description.name, "a weighting declares a value head; only an objective trains one");
  for (const Read& read : pipeline.needs.reads) {
    const std::string what = read.model + "." + read.what;
    if (what == "reference.loss") {
      if (!has_reference)
        refuse(description.name, "it reads the reference's losses; give [reference] experiment or weights");
      pipeline.reads_reference = true;
    } else if (what == "policy.loss") {
      if (is_objective) refuse(description.name, "an objective over the policy's token losses is not supported yet");
      if (pipeline.needs.when == When::before)
        refuse(description.name, "it reads the policy's losses, which are not there at When::before");
    } else if (!(is_objective && read.model == "policy" && declares(pipeline.needs, read.what))) {
      refuse(description.name, "it reads " + what +
                                   "; there are: policy.loss, reference.loss, and for an objective "
                                   "policy.value:NAME of a head that it declares");
    }
  }
  return pipeline;
}

}  // namespace wmtp
