// A c10d backend for ranks of one host: all-gather and all-to-all through shared memory (shared_rings.hpp). On the
// loopback, Gloo's thread wakes for each part of a message and competes with the training for cores.
//
// This backend has no thread. Starting an operation copies in what fits (some MiB); the rest is copied in, and the
// other ranks' data copied out, while this rank waits for it. So ranks must wait for operations in the same order.
#pragma once

#include "comm/torch/channels.hpp"

namespace wmtp {

/// Shared memory if all ranks of a communicator are processes on one host, in one container; else the backend made by
/// `otherwise`. [all ranks of the communicator, collective]
MakeBackend shared_memory_or(MakeBackend otherwise);

}  // namespace wmtp
