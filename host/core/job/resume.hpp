// The checkpoint from which --resume continues.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace wmtp {

struct ResumePoint {
  int64_t run_id = 0;            ///< 0: none, the run starts at step 0
  std::filesystem::path folder;  ///< an intact step-NNNNNN/
};
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(ResumePoint, run_id, folder)

/// [rank 0, or the launcher] The newest unfinished run of this configuration that has an intact checkpoint, or nothing.
/// Renames damaged checkpoints, with a warning for each. A run from which a finished one was resumed counts as finished.
/// Error(data) when the run is still running.
std::optional<ResumePoint> resume_point(const std::string& config_hash, const std::filesystem::path& database);

/// Whether the log contains an unfinished run of this configuration, with or without a checkpoint.
bool was_begun(const std::string& config_hash, const std::filesystem::path& database);

}  // namespace wmtp
