// Folders that a signal removes before it ends this process. A process that handles a signal itself, ignores or blocks
// it keeps doing so. SIGKILL and a power cut remove nothing.
#pragma once

#include <filesystem>

namespace wmtp {

/// Registers a folder while this exists. Beyond 32 of them, and paths that are longer than the system's limit, nothing
/// is registered.
class CleanupOnSignal {
 public:
  explicit CleanupOnSignal(const std::filesystem::path& folder);
  ~CleanupOnSignal();
  CleanupOnSignal(const CleanupOnSignal&) = delete;

 private:
  int slot_ = -1;
};

/// Removes the registered folders of this process, as far as possible. Async-signal-safe, for the signal handlers that
/// end the process themselves.
void remove_registered_folders();

}  // namespace wmtp
