// One run on one rank, from the session to the last row of the log.
#pragma once

#include "base/error.hpp"
#include "engine/run/session.hpp"

namespace wmtp {

/// Runs the experiment, under a foreign launcher after the stages that the log lacks; ours has started those as jobs of
/// their own. Returns done, guard or interrupted; every other end is thrown as an Error. [all ranks, collective]
ExitStatus run_with_stages(Session& session, const Experiment& experiment);

}  // namespace wmtp
