// Which checkpoint --resume goes on from.
#pragma once

#include <filesystem>
#include <string>

#include "run/session.hpp"

namespace wmtp {

struct ResumePoint {
  int64_t run_id = 0;
  std::filesystem::path folder;  ///< a step-NNNNNN/ that verifies
};

/// [rank 0] The newest unfinished run of this configuration that has a checkpoint which verifies, with damaged ones set
/// aside (each named through `say`). A run that a finished one was resumed from counts as finished. Error(data) when
/// there is none, and when the run is still alive.
ResumePoint find_resume_point(const std::string& config_hash, const std::filesystem::path& database,
                              const std::function<void(const std::string&)>& say);

}  // namespace wmtp
