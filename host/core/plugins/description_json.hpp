// A plugin's description, and its answer when it is asked with certain options, as JSON: between the probe child and
// its parent, and in the probe's cache.
#pragma once

#include <nlohmann/json.hpp>

#include "core/experiment/plugin_description.hpp"

namespace wmtp {

nlohmann::json to_json(const PluginDescription& description);
/// Throws std::exception when a key is missing or of another type.
PluginDescription description_from_json(const nlohmann::json& json);

nlohmann::json to_json(const PluginNeeds& needs);
PluginNeeds needs_from_json(const nlohmann::json& json);

/// {"needs": …} or {"mistake": …}.
nlohmann::json to_json(const PluginAnswer& answer);
PluginAnswer answer_from_json(const nlohmann::json& json);

/// What loads and makes a plugin: who it is, its file and its options.
nlohmann::json to_json(const PluginSetting& setting);
PluginSetting setting_from_json(const nlohmann::json& json);

}  // namespace wmtp
