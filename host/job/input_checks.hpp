// Checks a run's data and weights for `plan`, and for `run` before it starts ranks, with the functions that the ranks
// use, so messages and exit codes are the same. Reads the data once to hash them, and weights whose hash is not cached.
// Does not find errors that only appear when data are prepared or during training.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "job/stages.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

/// Verifies what the experiment names as weights if it has a manifest, as --resume does, and returns the folders of
/// checkpoints. Logs which were chosen. Error(data) if one is not what its manifest says, or a name has no model.
std::vector<std::filesystem::path> verify_named_checkpoints(const Experiment& experiment,
                                                            const std::filesystem::path& database);

/// Error(data) if the experiment or one of its stages names a file that is missing or has the wrong content, or a run
/// that is not in the log; for the experiment itself also if names or shapes of weights do not match, a frozen model
/// has another tokenizer than the data, or a token file is too short for `processes`.
void check_inputs(const Experiment& experiment, int64_t processes, const Catalog& catalog, ExperimentHashes& hashes,
                  const std::filesystem::path& database);

/// Error(storage) if the folder of parallel.offload_path is not on this host. For what starts ranks here.
void check_offload_folder(const Experiment& experiment);

/// What no tensor of `weights` reveals and deserves a warning, as "[model] weights FOLDER: rope_theta is 500000.0 there
/// and 10000.0 here": positions and norms that differ from those of `model`, and of weights to train another tokenizer
/// than the data's, fewer positions than train.sequence_length, unless rope_scaling makes up for it, and dropout, which
/// this program has not; code that is not read. `table`: "model", or that of a frozen model. `prepared`: as in
/// tokenizer_check.hpp.
std::vector<std::string> weight_warnings(const std::string& table, const std::filesystem::path& weights,
                                         const ModelConfig& model, const Experiment& experiment,
                                         const std::filesystem::path& prepared);

/// What ranks warn of before they train on the inputs that the experiment names: gaps in the numbers of files, and
/// weight_warnings. For what looks at inputs without starting ranks, after check_inputs.
std::vector<std::string> input_warnings(const Experiment& experiment, const std::filesystem::path& database);

/// Error(data) unless a frozen model has the policy's vocabulary, blocks that the ranks can divide (block_misfit), a
/// length of at least train.sequence_length where its weights state one and no table of its shape does, and, for
/// `table` "value", one value head, trained on scores only if `reads_scores`.
void check_frozen_shape(const std::string& table, const std::filesystem::path& weights, const ModelConfig& frozen,
                        const Experiment& experiment, bool reads_scores);

/// Error(usage) if the experiment replicates or offloads frozen parameters and there are none. `freezes`: whether the
/// policy has frozen parameters, which only the adapter knows.
void check_frozen_parameters(const Experiment& experiment, bool freezes);

}  // namespace wmtp
