// RunLock: whether a run's folder is in use. An advisory lock (flock) on `<folder>/lock`, held by rank 0; the kernel drops
// it when the process ends, however that happens, so nothing goes stale. Known on one machine only.
#pragma once

#include <filesystem>

namespace wmtp {

class RunLock {
 public:
  /// Takes the lock of a run's own, new folder. Error(storage) when the file cannot be made, or is there already: then
  /// another log in this place had a run of this number and name, whose files must not be mixed with these.
  explicit RunLock(const std::filesystem::path& run_folder);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Whether a living process holds it.
  static bool is_held(const std::filesystem::path& run_folder);

 private:
  int fd_ = -1;
};

}  // namespace wmtp
