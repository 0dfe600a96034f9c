// What a run would refuse of its data and weights, for `plan` and for `run` before it starts a rank: by the functions of
// the ranks, so with the same messages and exit codes. Data are read once, for their hash; weights too, where they are new. What only prepared
// data or training tell is not known. Knows no LibTorch.
#pragma once

#include <filesystem>

#include "core/job/stages.hpp"
#include "core/plugins/catalog.hpp"

namespace wmtp {

/// Of an experiment and the stages below it: files that are missing or hold something else, runs that the log lacks.
/// Of the experiment itself also the names and shapes of weights, and whether a token file is enough for `processes`.
/// Error(data).
void check_inputs(const Experiment& experiment, int64_t processes, const Catalog& catalog, ExperimentHashes& hashes,
                  const std::filesystem::path& database);

/// A frozen model's shape against the policy's: one vocabulary, and one value head for `table` "value", which has learned
/// no scores unless `reads_scores`. Error(data).
void check_frozen_shape(const std::string& table, const std::filesystem::path& weights, const ModelConfig& frozen,
                        const ModelConfig& policy, bool reads_scores);

}  // namespace wmtp
