// Durable files and folders: what is renamed into place is whole, and survives a power cut.
//
// A folder: 1. everything is written under NAME.tmp-PID  2. each file fsynced and closed, errors checked
// 3. the folder fsynced  4. renamed to NAME  5. the parent fsynced. A crash before 4 leaves NAME.tmp-* only, which no
// reader looks at and the next writer removes. A failed fsync gives the file up; it is never retried.
// Crash points and operations can be made to fail in tests (CrashPoint, FileOperation).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace wmtp {

enum class FileOperation { open, write, fsync, rename, sync_folder };
/// Called before each operation; throwing from it is the failure. Empty by default. [tests only]
using FileHook = std::function<void(FileOperation, const std::filesystem::path&)>;
void set_file_hook(FileHook hook);

/// A new file, written front to back or at offsets. Error(storage) with path and cause on any failure.
class DurableFile {
 public:
  explicit DurableFile(const std::filesystem::path& path);
  ~DurableFile();  ///< closes; a file that was not finished is worthless
  DurableFile(const DurableFile&) = delete;
  void write(const void* bytes, size_t count);
  void write_at(int64_t offset, const void* bytes, size_t count);
  void finish();  ///< fsync and close, both checked

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// Steps 3 to 5. `target` must not exist. Error(storage).
void publish_folder(const std::filesystem::path& temporary, const std::filesystem::path& target);
/// A small file, replaced whole.
void write_file_durably(const std::filesystem::path& path, std::string_view text);

/// CRC-32C (Castagnoli), by the processor's own instruction; continue with the previous value.
uint32_t crc32c(const void* bytes, size_t count, uint32_t previous = 0);

}  // namespace wmtp
