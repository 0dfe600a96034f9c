// Reads untrusted files with pread, not a mapping, so that a failing disk or a truncated file causes an Error instead
// of SIGBUS. Usable from any thread, because there is no shared file offset.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/files.hpp"

namespace wmtp {

/// Reads `count` bytes at `offset`; false if the file ends earlier. Error(storage) if the system cannot read it.
bool read_at(int descriptor, const std::filesystem::path& path, int64_t offset, void* bytes, size_t count);

/// A regular file, open for reading. Error(data) if it is missing or not a regular file; Error(storage) if the
/// system cannot read it.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  int64_t size() const { return size_; }
  int descriptor() const { return file_.get(); }
  /// Error(data) if the file ends earlier.
  void read_at(int64_t offset, void* bytes, size_t count) const;

 private:
  std::filesystem::path path_;
  FileDescriptor file_;
  int64_t size_ = 0;
};

/// The content of a file that this program wrote into a cache and can do without; nullopt if it is missing, is longer
/// than `limit` bytes, cannot be read, or is no regular file (a pipe would block this program).
std::optional<std::string> read_cached_file(const std::filesystem::path& path, int64_t limit);

/// Error(data) if a file of an untrusted folder is a link that leaves the folder. Those of a snapshot in Hugging Face's
/// cache, which are links to ../../blobs, may do that.
void check_link_stays_inside(const std::filesystem::path& file);

/// The content. Error(data) if it is longer than `limit` bytes, before anything is read, or a pointer of Git LFS.
std::string read_small_file(const std::filesystem::path& path, int64_t limit);

}  // namespace wmtp
