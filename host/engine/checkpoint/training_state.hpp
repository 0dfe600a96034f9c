// Loads the state of an interrupted run: parameters, optimizer, step, data cursor, guard window, plugin state. Random
// draws are keyed by step and sequence and need no state. Written by state_saver.hpp. Loads at any world size and
// strategy, because each slice names the elements of the tensor that it contains.
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

/// [all ranks] Fills parameters, moments and `tensors` from a folder whose checksums were verified. Error(data), before
/// anything is changed, if a tensor or the steps of a group are missing, or a slice has another shape, dtype or range
/// than expected.
LoadedState load_training_state(const std::filesystem::path& folder, ShardedOptimizer& optimizer,
                                std::map<std::string, at::Tensor>& tensors);

}  // namespace wmtp
