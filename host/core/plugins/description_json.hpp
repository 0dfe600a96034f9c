// Plugin descriptions, settings and answers as JSON, for the probe's child process and cache.
#pragma once

#include <nlohmann/json.hpp>

#include "core/experiment/plugin_description.hpp"

namespace wmtp {

nlohmann::json to_json(const PluginDescription& description);
/// Throws std::exception when a key is missing or of another type.
PluginDescription description_from_json(const nlohmann::json& json);

nlohmann::json to_json(const PluginNeeds& needs);
PluginNeeds needs_from_json(const nlohmann::json& json);

/// {"needs": ...} or {"mistake": ...}.
nlohmann::json to_json(const PluginAnswer& answer);
PluginAnswer answer_from_json(const nlohmann::json& json);

/// Identity, file and options: what is needed to load and create the plugin.
nlohmann::json to_json(const PluginSetting& setting);
PluginSetting setting_from_json(const nlohmann::json& json);

}  // namespace wmtp
