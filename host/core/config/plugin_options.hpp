// The keys of plugins' own: [pipeline], [pipeline.inner] and [adapter] against the schemas that the plugins declare,
// and then against the plugins themselves.
#pragma once

#include "core/config/load.hpp"
#include "core/experiment/bind.hpp"

namespace wmtp {

/// Finds the plugins of an experiment and fills their options, defaults included. A plugin that cannot be found or is
/// refused is one mistake at its name, and its options are not looked at. A value that a plugin cannot take is one at
/// that value, down to the letter where the plugin names it. Gives what the pipeline needs with its options; nothing
/// after a mistake in its tables. Without `check` (tests of other things) it is what the description says.
std::optional<PluginNeeds> bind_plugins(const Node& document, const DescribePlugin& describe, const CheckPlugin& check,
                                        Bound& bound, Diagnostics& diagnostics);

}  // namespace wmtp
