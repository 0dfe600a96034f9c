// Drafts: folders for what is not complete yet, `NAME.tmp-XXXXXXXXXXXX` beside NAME. Six of the digits stand for this
// boot of the machine, six are random: processes in two containers have the same IDs.
//
// A draft has an owner, which holds a lock (flock) on it; the kernel releases the lock when the process ends for any
// reason, so that a draft whose lock can be taken has no owner, in any container of this machine. Locks of other
// machines may be invisible here; therefore only drafts of this boot are searched for and removed. On file systems
// without locks on folders none is.
#pragma once

#include <filesystem>
#include <string>

#include "base/files.hpp"
#include "io/signal_cleanup.hpp"

namespace wmtp {

/// A new name for a draft, in the folder of `target`.
std::filesystem::path draft_path(const std::filesystem::path& target);
/// The name of the target of a draft; "" if `name` is not the name of a draft.
std::string draft_target(const std::string& name);

/// The lock of a draft that has no owner any more; otherwise none.
FileDescriptor lock_abandoned_draft(const std::filesystem::path& draft);
/// Removes the drafts in `folder` that processes on this machine have left behind. Ignores errors: the next process
/// tries again.
void remove_abandoned_drafts(const std::filesystem::path& folder);

/// An empty folder, removed with its content by the destructor, or by a signal that ends the process.
class DraftFolder {
 public:
  /// Removes abandoned drafts in the same folder. Error(storage).
  explicit DraftFolder(const std::filesystem::path& path);
  ~DraftFolder();
  DraftFolder(const DraftFolder&) = delete;
  DraftFolder& operator=(const DraftFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
  CleanupOnSignal removed_;
  FileDescriptor lock_;
};

}  // namespace wmtp
