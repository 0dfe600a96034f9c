// Small answers that every model of a run needs: how it is stored, and where its first weights lie.
#pragma once

#include <filesystem>
#include <string>

#include "engine/run/session.hpp"
#include "engine/shard/parameter_group.hpp"

namespace wmtp {

GroupOptions group_options(const ParallelConfig& parallel, at::Device device);

/// The folder or file that a table's stage or its `weights` stand for; empty when it gives neither. Error(data).
std::filesystem::path first_weights(const Session& session, const Experiment& experiment, const Stages& stages,
                                    const std::string& table, const std::string& weights);

}  // namespace wmtp
