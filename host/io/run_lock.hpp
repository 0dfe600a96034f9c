// RunLock: whether a run's folder is in use. An advisory lock (flock) on `<folder>/lock`, held by rank 0; the kernel
// releases it when the process ends for any reason, so it is never stale. Visible on one machine only.
#pragma once

#include <filesystem>

#include "base/files.hpp"

namespace wmtp {

class RunLock {
 public:
  /// Locks a run's new folder. Error(storage) if the lock file cannot be created or already exists: then a run of
  /// another log with the same number and name used this folder, and the files of both must not be mixed.
  explicit RunLock(const std::filesystem::path& run_folder);

  static bool is_held(const std::filesystem::path& run_folder);

 private:
  FileDescriptor file_;
};

}  // namespace wmtp
