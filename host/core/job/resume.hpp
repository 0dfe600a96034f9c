// The checkpoint from which --resume continues.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace wmtp {

struct ResumePoint {
  int64_t run_id = 0;
  std::filesystem::path folder;  ///< an intact step-NNNNNN/
};

/// [rank 0, or the launcher] The newest unfinished run of this configuration that has an intact checkpoint, or nothing.
/// Renames damaged checkpoints and reports each through `say`. A run from which a finished one was resumed counts as
/// finished. Error(data) when the run is still running.
std::optional<ResumePoint> resume_point(const std::string& config_hash, const std::filesystem::path& database,
                                        const std::function<void(const std::string&)>& say);

/// The same; Error(data) when there is none.
ResumePoint find_resume_point(const std::string& config_hash, const std::filesystem::path& database,
                              const std::function<void(const std::string&)>& say);

/// Whether the log contains an unfinished run of this configuration, with or without a checkpoint.
bool was_begun(const std::string& config_hash, const std::filesystem::path& database);

}  // namespace wmtp
