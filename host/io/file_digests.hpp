// FileDigests: SHA-256 of files' contents, remembered on the disk, so that a start reads only files that are new or
// have changed. A file is taken as unchanged while its size, inode and times of modification and change are the same;
// the system sets the time of change, programs cannot. A digest is not remembered if the file changed less than two
// seconds before it was read: another write within the same tick of its clock could go unnoticed. Files are opened
// before they are examined, so that a network file system asks its server. Changes through a memory mapping that was
// written to before a file was read may go unnoticed.
//
// An unusable list of digests only costs time. Not thread-safe; several processes may use one list.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace wmtp {

class WorkProgress;

class FileDigests {
 public:
  /// Remembers in the file `list`, whose folder may not exist yet. If the folder of that folder does not exist either,
  /// nothing is remembered: a plan before the first run leaves no folder behind. `settled`: see above.
  explicit FileDigests(std::filesystem::path list, std::chrono::nanoseconds settled = std::chrono::seconds(2));
  ~FileDigests();  ///< writes what is new, without files that no longer exist
  FileDigests(const FileDigests&) = delete;

  /// nullopt: the file must be read.
  std::optional<std::string> known(const std::filesystem::path& file) const;
  /// Reads the file. Errors as file_sha256_hex.
  std::string read(const std::filesystem::path& file, WorkProgress* progress = nullptr);

 private:
  struct Entry {
    std::string state, digest;  ///< state: size, inode and times as text
  };
  using Entries = std::map<std::string, Entry>;  ///< by absolute path
  static Entries entries_of(const std::filesystem::path& list);
  void save() const;

  std::filesystem::path list_;
  std::chrono::nanoseconds settled_;
  Entries entries_, fresh_;
};

}  // namespace wmtp
