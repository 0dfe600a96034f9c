// The state of a run in a checkpoint for resuming: parameters, their moments and the state of the pipeline. Each rank
// of the first replica writes its shards, and rank 0 the pipeline's state. Any world size and strategy can read them,
// because each slice names the range of elements that it contains. state_saver.hpp decides when and in which order the
// files are written. Random draws are keyed by step and sequence, so they need no state.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "checkpoint/manifest.hpp"
#include "checkpoint/saved_state.hpp"
#include "optimizer/torch/sharded_optimizer.hpp"

namespace wmtp {

struct LoadedState {
  Manifest manifest;
  SavedState state;
};

/// [all ranks] Fills parameters, moments and `pipeline_state` from a folder with verified checksums. Error(data),
/// before anything is changed, if a tensor or the step count of a group is missing, or a slice has an unexpected shape,
/// dtype or range.
LoadedState load_training_state(const std::filesystem::path& folder, ShardedOptimizer& optimizer,
                                std::map<std::string, at::Tensor>& pipeline_state);

/// Whether a checkpoint holds tensors of this dtype. Plugin state keeps its own: counts and running sums may need more
/// than fp32 to resume exactly.
bool can_be_saved(at::ScalarType dtype);
/// The safetensors name of a dtype that can be saved.
const char* state_dtype_name(at::ScalarType dtype);
at::ScalarType state_dtype(const std::string& name);  ///< Error(data) for a dtype that is never saved

/// The masters of a group, one of the moments or the moving average, flattened.
struct StateFlat {
  const char* prefix;  ///< of the logical names
  const ParameterGroup* group;
  /// Same layout as the group's master shard, or as the end of it; undefined: in the optimizer's file.
  at::Tensor values;
};

/// Views of everything that this rank writes, in file order.
std::vector<StateFlat> state_flats(ShardedOptimizer& optimizer);

struct SavedSlice {
  Slice slice;
  at::Tensor values;  ///< contiguous, on the CPU; fp32, or of the plugin's state; undefined: in the optimizer's file
};

/// Cuts `flats` into slices, on rank 0 followed by `pipeline_state` (by name); all on the CPU. Checksums are not set
/// yet.
std::vector<SavedSlice> cut_into_slices(const std::vector<StateFlat>& flats,
                                        const std::map<std::string, at::Tensor>& pipeline_state, int rank);

/// Writes this rank's file durably and computes the checksums. What `optimizer` has in a file is streamed from there,
/// block by block, before all else; then `state_was_read` is called. Returns a report for rank 0: the slices, the
/// file's size, the checksum of its other bytes, and `optimizer_steps` (of SavedState) of the units on this rank.
std::string write_rank_file(const std::filesystem::path& folder, std::vector<SavedSlice>& saved_slices, int rank,
                            const Json& optimizer_steps, ShardedOptimizer& optimizer,
                            const std::function<void()>& state_was_read);
/// Adds a report to the manifest. `host`: the host that keeps the file; empty if it is in the manifest's folder.
void add_report(const std::string& report, int rank, const std::string& host, Manifest& manifest);

}  // namespace wmtp
