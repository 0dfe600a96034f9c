// `runs rename`: changes a run's name in the log and its folder's name, both or neither.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace wmtp {

/// Error(usage) if the name is invalid, or the run is active. Error(storage) if the log or the folder cannot be
/// changed.
void rename_run(const std::filesystem::path& database, int64_t run_id, const std::string& name);

}  // namespace wmtp
