// What one rank writes of a checkpoint for resuming: its parts of every trained tensor and of its moments, and on rank
// 0 what the pipeline remembers; of replicas, rank 0's.
#pragma once

#include <ATen/ATen.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/checkpoints/manifest.hpp"
#include "engine/shard/sharded_optimizer.hpp"

namespace wmtp {

/// The safetensors name of a dtype that is saved; Error(storage) for another. A plugin's counts and running sums are
/// wider than fp32, and go on as if nothing had happened only in full.
const char* state_dtype_name(at::ScalarType dtype);
at::ScalarType state_dtype(const std::string& name);  ///< Error(data) for another

/// One flat tensor of a group: its masters or moments.
struct StateFlat {
  const char* prefix;  ///< of the logical names: "param/", "exp_avg/", "exp_avg_sq/"
  const ParameterGroup* group;
  at::Tensor values;  ///< laid out like the group's master shard
};

/// Views of what this rank has to write, in the order of the file.
std::vector<StateFlat> state_flats(ShardedOptimizer& optimizer);

struct Piece {
  Slice slice;
  at::Tensor values;  ///< contiguous on the CPU: of a plugin in its own dtype, all else fp32
};

/// `flats` on the CPU; `tensors` (by name, on the CPU) are written by rank 0. Their sums are not yet taken.
std::vector<Piece> pieces_of(const std::vector<StateFlat>& flats, const std::map<std::string, at::Tensor>& tensors,
                             int rank);

/// Writes this rank's file, durably, and takes the sums on the way. Text for rank 0: the slices, or the reason why not.
std::string write_rank_file(const std::filesystem::path& folder, std::vector<Piece>& pieces, int rank);
/// The slices of such a text. Error(storage) with the reason.
std::vector<Slice> slices_of_report(const std::string& report);

}  // namespace wmtp
