#include "core/plugins/pipeline_needs.hpp"

#include "core/experiment/given_options.hpp"
#include "core/plugins/probe.hpp"

namespace wmtp {

PluginSetting setting_of(const Catalog& catalog, const std::string& kind, const PluginChoice& choice) {
  return {catalog.describe(kind, choice.plugin), given_options(choice)};
}

PluginNeeds pipeline_needs(const Experiment& experiment, const Catalog& catalog) {
  const PluginSetting outer = setting_of(catalog, "pipeline", experiment.pipeline);
  if (experiment.inner) {
    const PluginSetting inner = setting_of(catalog, "pipeline", *experiment.inner);
    return check_plugin(outer, &inner).needs;
  }
  if (outer.description.needs && outer.options.empty()) return *outer.description.needs;
  return check_plugin(outer, nullptr).needs;
}

}  // namespace wmtp
