// A c10d backend for ranks of one host: all-gather and all-to-all through memory that they share (shared_rings.hpp).
// Gloo on the loopback copies every byte four times, twice of them in the kernel, and lets a thread of its own compete
// with the training for the cores.
//
// There is no such thread here. An operation is begun by copying in what fits (some MiB); the rest goes in, and what
// the others sent is copied out, while this rank waits for it. So ranks must wait for their operations in the same
// order.
#pragma once

#include "engine/comm/channels.hpp"

namespace wmtp {

/// Through memory where the ranks of a communicator are all processes of one host, in one container; else what
/// `otherwise` makes. [all ranks of the communicator, collective]
MakeBackend through_memory(MakeBackend otherwise);

}  // namespace wmtp
