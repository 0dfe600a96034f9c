// Finds a finished model by its folder or by a run in the log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace wmtp {

struct FoundModel {
  std::filesystem::path folder;
  int64_t run_id = 0;  ///< 0 for a folder
};

/// `run_or_folder`: the folder of a model or a run; if no such folder exists, the number or name of a run of the log
/// (the newest finished one). Error(usage) with the nearest name if there is none; Error(data) if the run has not
/// finished or its model is missing.
FoundModel find_model(const std::string& run_or_folder, const std::filesystem::path& database);

}  // namespace wmtp
