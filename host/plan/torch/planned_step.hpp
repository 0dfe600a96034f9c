// A step without values: the real model, optimizer and collectives on the meta device (memory/meta_device.hpp), as
// one rank of a job runs them. What the step allocates is counted as in a run, by category and phase. The answer,
// PlannedStep, is with its question in plan/step_request.hpp, because wmtp-host reads it without LibTorch.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "plan/torch/planned_world.hpp"
#include "train/assembly.hpp"

namespace wmtp {

/// The parts of an experiment that its step runs.
struct StepParts {
  ActivePipeline pipeline;
  std::unique_ptr<Adapter> adapter;
};
using OpenParts = std::function<StepParts(const Experiment& experiment)>;

/// The experiment in the request's layout.
Experiment in_layout(Experiment experiment, const StepRequest& request);

/// What one rank ran in a layout.
struct RankSteps {
  struct Step {
    PlannedStep step;  ///< without seconds
    StepTimeline timeline;
  };
  std::vector<Step> steps;  ///< one, or a second one with one micro-batch more or less
  IssuedCollectives collectives;
};
/// By layout and rank: a request that differs from another one in its rates runs nothing.
using KnownSteps = std::map<std::string, RankSteps>;

struct PlannedRank {
  PlannedStep step;
  IssuedCollectives collectives;
  RankWork micro_batch;  ///< with rates, and several micro-batches or sections: what one more adds in seconds
};
/// What rank `rank` of a step needs, the second or a later one, and the collectives from its start to the end of the
/// steps that it ran. `known`: of the same experiment and parts.
/// [after install_meta_device, in a process without other tensors]
PlannedRank plan_rank(const Experiment& experiment, const StepRequest& request, const OpenParts& open, int rank,
                      KnownSteps& known);

/// In each phase the most that a rank needs, the operations and traffic of rank 0, and the seconds of all sections
/// together. The last rank of a section needs other memory than the first where ranks divide sequences, whose last
/// positions have no target, and with Muon, which keeps less state of matrices than of the rest.
/// With request.compare_ranks, Error(bug) if rank 0, its neighbours along each axis and the last rank of a section call
/// different collectives, there or in neighbouring sections.
PlannedStep plan_step(const Experiment& experiment, const StepRequest& request, const OpenParts& open,
                      KnownSteps& known);

}  // namespace wmtp
