// Plugin descriptions, settings and answers as JSON, for the probe's child process and cache. Reading throws
// std::exception if a key is missing or has the wrong type.
#pragma once

#include "base/json.hpp"
#include "experiment/plugin_description.hpp"

namespace wmtp {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ValueHeadNeed, name, kind, meaning)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PluginNeeds, when, reads, heads, pairs, prompts, scores, signed_weights, top_k)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptionMistake, is_inner_option, option, message, at)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PluginCheckResult, needs, mistake)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(OptionSpec, name, type, default_value, min, max, choices, help)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PluginDescription, kind, role, name, version, summary, options, needs, path, sha256)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(PluginSetting, description, options)

}  // namespace wmtp
