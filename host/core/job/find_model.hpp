// A finished model: the folder that a user names directly, or by a run of the log.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace wmtp {

struct FoundModel {
  std::filesystem::path folder;
  int64_t run_id = 0;  ///< of the log; 0 where a folder was named
};

/// `run_or_folder` is a model's folder, a run's folder, or, where no folder has that name, a run of the log by its number
/// or its name (the newest finished one). Error(usage) when there is none, with the nearest name; Error(data) when the
/// run has not finished or its model is gone.
FoundModel find_model(const std::string& run_or_folder, const std::filesystem::path& database);

}  // namespace wmtp
