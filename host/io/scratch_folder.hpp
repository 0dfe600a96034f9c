// A folder for temporary files of one process: `wmtp-<uid>-XXXXXX` in TMPDIR or /tmp, accessible to this user only. The
// destructor removes it. A killed process leaves it behind; the first ScratchFolder of any later process of the same
// user removes it.
//
// The owner holds a lock (flock) on the folder, which the kernel releases when the process ends for any reason. A
// folder whose lock can be taken therefore has no owner, in any container or pid namespace. On file systems without
// locks on folders nothing is removed. The name alone is not sufficient: the folder must belong to this user, be
// accessible to nobody else, be opened without following a link, and its parent must not let others rename it (a sticky
// folder, or one that only this user may write to).
#pragma once

#include <filesystem>
#include <string>

#include "base/files.hpp"

namespace wmtp {

class ScratchFolder {
 public:
  /// Error(storage) if none can be created.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  FileDescriptor lock_;
};

/// TMPDIR or /tmp. Error(storage) if it is not a folder.
std::filesystem::path temporary_folder();

/// A folder that remains: `wmtp-<uid>-NAME` in TMPDIR or /tmp, made if it is not there. Empty if it cannot be made, or
/// if others could have written it. [name does not have six characters]
std::filesystem::path persistent_temp_folder(const std::string& name);

/// Removes folders of this user in `parent` that have no owner. Ignores errors: the next process tries again.
void remove_abandoned_scratch_folders(const std::filesystem::path& parent);

}  // namespace wmtp
