// The frozen models of [reference], [references.NAME] and [value]: where their weights are, and which of their signals
// are cached where.
#pragma once

#include "data/torch/prepare.hpp"
#include "job/identity.hpp"
#include "step/active_pipeline.hpp"
#include "train/session.hpp"
#include "train/trainer.hpp"

namespace wmtp {

/// The frozen models that the pipeline reads, from the stages that trained them or from files; their weights are loaded
/// when the first window needs them. [all ranks] Error(data) if one is missing, has another vocabulary or lacks the
/// required head.
FrozenCaches open_frozen(Session& session, const Experiment& experiment, const Stages& stages,
                         const ActivePipeline& pipeline, const Prepared& data);

}  // namespace wmtp
