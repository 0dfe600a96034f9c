// A folder of temporary files that belongs to its process: `wmtp-<uid>-XXXXXX` under the temporary folder (TMPDIR, else
// /tmp), which only this user can enter. It goes with the object. A process that is killed leaves it; the first
// ScratchFolder of every later process of the same user removes such folders.
//
// The owner holds a lock (flock) on the folder, which the kernel drops when the process ends, however that happens. So
// a folder whose lock can be taken has no owner, in whichever container or pid namespace it was made. Where the file
// system knows no locks on folders none is removed. A name alone is never believed: only a folder of this user that
// nobody else may enter is, opened without following a link, and only where others cannot rename it (a sticky folder,
// or one that this user alone may write to).
#pragma once

#include <filesystem>

namespace wmtp {

class ScratchFolder {
 public:
  /// Error(storage) when none can be made.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  int lock_ = -1;
};

/// Removes the folders of this user under `parent` that have no owner. Tells of nothing and fails with nothing: what
/// cannot be removed now is tried again by the next process.
void remove_ownerless_scratch_folders(const std::filesystem::path& parent);

}  // namespace wmtp
