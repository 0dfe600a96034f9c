// Everything a run needs to go on as if it had not stopped: parameters, optimizer, step, guard window, plugin state.
// Random draws are keyed by step and sequence and the data cursor follows from the step, so neither has state.
//
// A step-NNNNNN/ folder: every rank writes its shards (rank-RRRR.safetensors: slices of logical tensors, "param/NAME",
// "exp_avg/NAME", "exp_avg_sq/NAME"), rank 0 then the manifest, and publishes the folder. Loads at any world size and
// under any strategy, since slices say which elements of which tensor they hold.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "checkpoint/manifest.hpp"
#include "dist/channels.hpp"
#include "shard/sharded_model.hpp"
#include "shard/sharded_optimizer.hpp"

namespace wmtp {

struct SaveRequest {
  std::filesystem::path run_folder;
  int64_t step = 0;
  std::string config_hash;
  std::map<std::string, std::string> plugins;
  nlohmann::json state;                              ///< small values; equal on all ranks
  const std::map<std::string, at::Tensor>* tensors;  ///< the pipeline's named state; equal on all ranks
};

/// [all ranks, collective] The folder, published. Error(storage) on every rank when any of them failed.
std::filesystem::path save_training_state(const SaveRequest& request, ShardedModel& model, ShardedOptimizer& optimizer,
                                          Channels& channels);

/// [all ranks] Fills model, optimizer and `tensors` from a folder that was verified; returns its manifest.
/// Error(data) when a tensor is missing or has another shape.
Manifest load_training_state(const std::filesystem::path& folder, ShardedModel& model, ShardedOptimizer& optimizer,
                             std::map<std::string, at::Tensor>& tensors);

}  // namespace wmtp
