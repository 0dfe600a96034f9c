// What the pipeline of an experiment needs with its options, asked in a child process where no cache says it.
#pragma once

#include "core/plugins/catalog.hpp"

namespace wmtp {

/// A plugin that the experiment names, with the options that it gives. Error(plugin).
PluginSetting setting_of(const Catalog& catalog, const std::string& kind, const PluginChoice& choice);

/// Of a wrapper over its inner one. Error(plugin).
PluginNeeds pipeline_needs(const Experiment& experiment, const Catalog& catalog);

}  // namespace wmtp
