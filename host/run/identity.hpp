// Identity of an experiment: its configuration hash, with all that it depends on by content. Knows no LibTorch.
#pragma once

#include <filesystem>
#include <string>

#include "experiment/experiment.hpp"
#include "plugin/catalog.hpp"

namespace wmtp {

/// Hashes data, tokenizer and weights by content (a run's model by its manifest), plugins by name and version, stages by
/// their own hashes. Error(data) when one of them is missing.
std::string experiment_hash(const Experiment& experiment, const Catalog& catalog, const std::filesystem::path& database);

/// A finished run of this hash whose model/ verifies, or an empty path.
std::filesystem::path finished_model(const std::string& config_hash, const std::filesystem::path& database);

/// "run:NAME", a file or a folder -> the folder or file to read. Error(data) when there is none.
std::filesystem::path resolve_weights(const std::string& weights, const Experiment& experiment,
                                      const std::filesystem::path& database);

}  // namespace wmtp
