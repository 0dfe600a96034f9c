// The parameter layout that a run would have: the engine's answer to `plan`. [probe child]
#pragma once

#include <string>

#include "model/torch/units.hpp"
#include "plan/layout.hpp"

namespace wmtp {

PlannedLayout planned_layout(const LayoutRequest& request);

/// JSON array of layout questions (plan/layout.hpp) -> JSON array of their layouts. Error(plugin) if an adapter
/// fails.
std::string describe_layouts(const std::string& questions);

}  // namespace wmtp
