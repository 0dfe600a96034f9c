// Folders of prepared data: whole or not there. Everything is written and synced in a temporary folder beside the final
// name, prepared.json last, and the folder is renamed; where another process was faster, its folder stands and ours is
// removed. A crash leaves a .tmp- folder that nobody reads.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

namespace wmtp {

/// prepared.json of a folder whose files have the sizes that it says, else nothing.
std::optional<nlohmann::json> read_prepared(const std::filesystem::path& folder);

/// Removes itself unless it was renamed into place. Error(storage) when the disk refuses.
class TemporaryFolder {
 public:
  explicit TemporaryFolder(const std::filesystem::path& target);
  ~TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

  /// Writes `prepared` with the sizes of all files as prepared.json, and renames.
  void finish(nlohmann::json prepared);

 private:
  void rename_into_place();

  std::filesystem::path target_, path_;
};

}  // namespace wmtp
