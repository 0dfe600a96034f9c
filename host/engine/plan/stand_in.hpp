// Pipelines in place of a plugin that reads values, which a planned step does not have. They are called at the same moments
// and get the same signals, but what the plugin itself would allocate is not planned.
#pragma once

#include "engine/step/active_pipeline.hpp"

namespace wmtp {

/// With the needs of `pipeline`.
ActivePipeline stand_in(const ActivePipeline& pipeline);

}  // namespace wmtp
