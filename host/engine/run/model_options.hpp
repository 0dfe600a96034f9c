// What every model of a run needs: storage options and the path of its initial weights.
#pragma once

#include <filesystem>
#include <string>

#include "engine/run/session.hpp"
#include "engine/shard/parameter_group.hpp"

namespace wmtp {

GroupOptions group_options(const ParallelConfig& parallel, at::Device device);

/// The model of the table's stage, or else its `weights` resolved to a folder or file; empty without both. Error(data).
std::filesystem::path initial_weights(const Session& session, const Experiment& experiment, const Stages& stages,
                                      const std::string& table, const std::string& weights);

}  // namespace wmtp
