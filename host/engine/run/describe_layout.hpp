// The parameter layout that a run would have: the engine's answer to `plan`. [probe child]
#pragma once

#include <string>

#include "core/plan/layout.hpp"
#include "engine/model/units.hpp"

namespace wmtp {

PlannedLayout planned_layout(const LayoutRequest& request);

/// JSON array of layout questions (core/plan/layout.hpp) -> JSON array of their layouts. Error(plugin) if an adapter
/// fails.
std::string describe_layouts(const std::string& questions);

}  // namespace wmtp
