// The runs of an experiment on one rank: from the session to the last row of the log.
#pragma once

#include "engine/run/session.hpp"

namespace wmtp {

/// Runs the stages that the log lacks (under a foreign launcher; ours has trained them), then the experiment. Returns
/// done, guard or interrupted; every other end is thrown as an Error. [all ranks, collective]
ExitStatus run_with_stages(Session& session, const Experiment& experiment);

}  // namespace wmtp
