// Plugin descriptions, settings and answers as JSON, for the probe's child process and cache. Reading throws
// std::exception if a key is missing or has the wrong type.
#pragma once

#include "base/json.hpp"
#include "core/experiment/plugin_description.hpp"

namespace wmtp {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PluginNeeds, when, reads, heads, pairs, prompts, scores)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptionMistake, of_inner, option, message, at)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PluginAnswer, needs, mistake)

void to_json(nlohmann::json& out, const OptionSpec& option);
void from_json(const nlohmann::json& in, OptionSpec& option);

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PluginDescription, kind, role, name, version, summary, options, needs, path, sha256)

/// Identity, file and options: what is needed to load and create the plugin.
void to_json(nlohmann::json& out, const PluginSetting& setting);
void from_json(const nlohmann::json& in, PluginSetting& setting);

}  // namespace wmtp
