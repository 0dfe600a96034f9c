// The weights that weightings would give to the validation tokens of a finished model: what `wmtp-host weigh` computes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "job/engine_requests.hpp"

namespace wmtp {

struct Weighing {
  std::string model;                  ///< "run 3 ('base')", or a folder
  std::vector<std::string> names;     ///< of the weightings: their files' names without ".toml"
  std::vector<WeighedTokens> tokens;  ///< one per weighting, at the same positions
};

/// `run`: as find_model takes it. `files`: experiments, of which [pipeline], [reference], [references] and [value] are
/// read; the rest is that of the model's run or, if no run of the log has it, that of each file. Error(usage) for a
/// file that weighing_job refuses; Error(data) if a stage that a file names has no finished run, or as weigh_tokens.
Weighing weigh_validation(const std::string& run, const std::vector<std::string>& files,
                          const std::vector<std::string>& overrides, const std::filesystem::path& database,
                          const std::vector<std::filesystem::path>& plugin_folders);

}  // namespace wmtp
