// Compares what the ranks of a communicator are about to do, before they do it: ranks that disagree would otherwise
// wait for each other until a timeout, or exchange bytes that mean different things. One small all-gather for each
// collective, so it is for debug builds, and for WMTP_CHECK_COLLECTIVES=1 (0 turns it off in a debug build).
#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace wmtp {

bool collectives_are_checked();

/// What this rank, `rank` of all, is about to do; the first 200 characters count.
struct NextCollective {
  int rank;
  std::string text;  ///< purpose, operation, sizes, dtype, and how many went before on this communicator
};

/// "" where the ranks agree; else what each one is about to do. `device`: where the communicator's tensors lie. [all
/// ranks of the communicator, collective]
std::string disagreement(c10d::Backend& backend, at::Device device, const NextCollective& mine);

}  // namespace wmtp
