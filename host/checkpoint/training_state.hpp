// Everything a run needs to go on as if it had not stopped: parameters, optimizer, step, data cursor, guard window,
// plugin state. Random draws are keyed by step and sequence, so they have no state. Written by state_saver.hpp; loads
// at any world size and under any strategy, since slices say which elements of which tensor they hold.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/manifest.hpp"
#include "shard/sharded_optimizer.hpp"

namespace wmtp {

/// [all ranks] Fills parameters, moments and `tensors` from a folder that was verified; returns its manifest.
/// Error(data) when a tensor is missing or has another shape.
Manifest load_training_state(const std::filesystem::path& folder, ShardedOptimizer& optimizer,
                             std::map<std::string, at::Tensor>& tensors);

}  // namespace wmtp
