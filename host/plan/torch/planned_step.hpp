// A step without values: the real model, optimizer and collectives on the meta device (memory/meta_device.hpp), as
// one rank of a job runs them. What the step allocates is counted as in a run, by category and phase.
#pragma once

#include <functional>

#include "plan/step_question.hpp"
#include "train/assembly.hpp"

namespace wmtp {

/// The parts of an experiment that its step runs.
struct StepParts {
  ActivePipeline pipeline;
  std::unique_ptr<Adapter> adapter;
};
using OpenParts = std::function<StepParts(const Experiment& experiment)>;

/// The experiment in the question's layout.
Experiment in_layout(Experiment experiment, const StepQuestion& question);

/// What rank `rank` of a step needs, the second or a later one. [after install_meta_device, in a process without other
/// tensors]
PlannedStep plan_step(const Experiment& experiment, const StepQuestion& question, const OpenParts& open, int rank = 0);

/// In each phase the most that a rank needs, with the work of rank 0. The last rank differs from it where ranks divide
/// sequences, whose last positions have no target, and with Muon, which keeps less state of matrices than of the rest.
PlannedStep plan_step_of_all_ranks(const Experiment& experiment, const StepQuestion& question, const OpenParts& open);

}  // namespace wmtp
