// The shape of a frozen model and the heads that are read of it: known only where its weights can be read, because they
// may be all that tells how many heads a reference has.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.hpp"

namespace wmtp {

struct FrozenShape {
  ModelConfig model;        ///< its future_offsets at least of the heads that are read
  int64_t token_heads = 0;  ///< that are read: of a reference 1, or as many as the policy has if its own are; else 0
};

/// Of the frozen model of `table`. `weights`: its file or folder as it can be read; not read if a stage states the
/// shape. Error(data) if it cannot be read, or has fewer heads than heads = "own" of the table needs.
FrozenShape frozen_shape(const std::string& table, const Experiment& experiment, const std::filesystem::path& weights);

/// Whether the own heads of the reference of `table` are read. False if there is none or it cannot be read, which the
/// check of the inputs reports.
bool reads_own_heads(const std::string& table, const Experiment& experiment, const std::filesystem::path& database);

/// The shapes of the policy and of the given frozen models: the policy's where only weights tell one.
std::vector<ModelConfig> models_of(const Experiment& experiment);

/// The experiment, with what only the weights of its frozen models tell: their shapes, and whether own heads are read.
/// What cannot be read stays, which the check of the inputs reports.
Experiment with_shapes_of_weights(Experiment experiment, const std::filesystem::path& database);

}  // namespace wmtp
