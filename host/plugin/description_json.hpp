// A plugin's description as JSON: from the probe child to its parent, and in the probe's cache.
#pragma once

#include <nlohmann/json.hpp>

#include "experiment/plugin_description.hpp"

namespace wmtp {

nlohmann::json to_json(const PluginDescription& description);
/// Throws std::exception when a key is missing or of another type.
PluginDescription description_from_json(const nlohmann::json& json);

}  // namespace wmtp
