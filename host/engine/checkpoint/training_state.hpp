// Everything a run needs to go on as if it had not stopped: parameters, optimizer, step, data cursor, guard window,
// plugin state. Random draws are keyed by step and sequence, so they have no state. Written by state_saver.hpp; loads
// at any world size and under any strategy, since slices say which elements of which tensor they hold.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "core/checkpoints/manifest.hpp"
#include "core/checkpoints/saved_state.hpp"
#include "engine/shard/sharded_optimizer.hpp"

namespace wmtp {

struct LoadedState {
  Manifest manifest;
  SavedState state;
};

/// [all ranks] Fills parameters, moments and `tensors` from a folder whose sums were verified. Error(data), before any
/// of them is changed, when a tensor or the steps of a group are missing, or a slice has another shape, dtype or place
/// than wanted.
LoadedState load_training_state(const std::filesystem::path& folder, ShardedOptimizer& optimizer,
                                std::map<std::string, at::Tensor>& tensors);

}  // namespace wmtp
