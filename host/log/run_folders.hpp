// Where the runs of a log keep their files: in a folder of each run next to the database, and in one that all share.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace wmtp {

/// `<the database's folder>/<id>-<name>`; characters of the name that are invalid in file names become '-'.
std::filesystem::path run_folder_path(const std::filesystem::path& database, int64_t run_id, const std::string& name);

/// The folder of a run's finished model.
inline std::filesystem::path model_in(const std::filesystem::path& run_folder) { return run_folder / "model"; }

/// Where prepared data, frozen signals and digests are kept that runs of one log share.
inline std::filesystem::path cache_folder_path(const std::filesystem::path& database) {
  return database.parent_path() / "cache";
}

}  // namespace wmtp
