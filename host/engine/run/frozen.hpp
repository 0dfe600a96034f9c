// The frozen models of an experiment: [reference] and [value], from the stage that trained them or from files, with
// what they said of each window in earlier runs.
#pragma once

#include "engine/prepare/prepare.hpp"
#include "engine/run/session.hpp"
#include "engine/train/active_pipeline.hpp"
#include "engine/train/trainer.hpp"

namespace wmtp {

/// Those that the pipeline reads. [all ranks] Error(data) when one is missing, has another vocabulary, or lacks what is
/// read of it. Its weights are loaded when the first window wants them.
FrozenCaches open_frozen(Session& session, const Experiment& experiment, const Stages& stages,
                         const ActivePipeline& pipeline, const Prepared& data);

}  // namespace wmtp
