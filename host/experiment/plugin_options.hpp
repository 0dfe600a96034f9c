// The keys of a plugin's own: [pipeline] and [adapter] against the schema that the plugin declares.
#pragma once

#include "experiment/bind.hpp"
#include "experiment/load.hpp"

namespace wmtp {

/// Finds the plugin of `kind` ("pipeline", "adapter") and fills `choice.options`, defaults included. A plugin that
/// cannot be found or is refused is one mistake at its name, and its options are not looked at. Gives what the plugin
/// reads.
std::vector<std::string> bind_plugin(const std::string& kind, const Node& document, const DescribePlugin& describe,
                                     PluginChoice& choice, Bound& bound, Diagnostics& diagnostics);

}  // namespace wmtp
