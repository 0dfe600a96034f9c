// Which checkpoint --resume goes on from. Knows no LibTorch.
#pragma once

#include <filesystem>
#include <functional>
#include <optional>
#include <string>

namespace wmtp {

struct ResumePoint {
  int64_t run_id = 0;
  std::filesystem::path folder;  ///< a step-NNNNNN/ that verifies
};

/// [rank 0, or the launcher] The newest unfinished run of this configuration that has a checkpoint which verifies, with
/// damaged ones set aside (each named through `say`); nothing when there is none. A run that a finished one was resumed
/// from counts as finished. Error(data) when the run is still alive.
std::optional<ResumePoint> resume_point(const std::string& config_hash, const std::filesystem::path& database,
                                        const std::function<void(const std::string&)>& say);

/// The same where there must be one: else Error(data).
ResumePoint find_resume_point(const std::string& config_hash, const std::filesystem::path& database,
                              const std::function<void(const std::string&)>& say);

/// Whether the log holds an unfinished run of this configuration, with a checkpoint or without.
bool was_begun(const std::string& config_hash, const std::filesystem::path& database);

}  // namespace wmtp
