// Runs an experiment on one rank: from the session to the last row of the log.
#pragma once

#include "train/session.hpp"

namespace wmtp {

/// Runs the stages missing in the log (under a foreign launcher; ours has already trained them), then the experiment.
/// Returns done, guard or interrupted; throws an Error for any other outcome. [all ranks, collective]
ExitStatus run_with_stages(Session& session, const Experiment& experiment);

}  // namespace wmtp
