// The weights that an experiment names: by a path, or by the run that made them. They must not change between the hash
// and the training, so an active run, whose newest checkpoint a user may name (job/find_model.hpp), counts only with a
// step.
#pragma once

#include <filesystem>
#include <string>

#include "experiment/experiment.hpp"
#include "job/find_model.hpp"

namespace wmtp {

/// What an experiment names as weights: "run:RUN", as find_run_model takes it; a run's folder, a checkpoint, another
/// folder, or a file. Error(data) if there is none, or if the run is active and no step is named.
FoundModel find_weights(const std::string& weights, const Experiment& experiment,
                        const std::filesystem::path& database);

/// Its folder or file, which identifies it; find_complete_model is what can be read.
std::filesystem::path resolve_weights(const std::string& weights, const Experiment& experiment,
                                      const std::filesystem::path& database);

/// The folder of [adapter] weights: of a run its adapter/, or a checkpoint that holds an adapter. Error(data) if there
/// is none.
std::filesystem::path resolve_adapter(const Experiment& experiment, const std::filesystem::path& database);

}  // namespace wmtp
