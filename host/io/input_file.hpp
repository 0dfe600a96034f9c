// Reads untrusted files with pread, not a mapping, so that a failing disk or a truncated file causes an Error instead
// of SIGBUS. Usable from any thread, because there is no shared file offset.
#pragma once

#include <cstdint>
#include <filesystem>
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
  Descriptor file_;
  int64_t size_ = 0;
};

/// The content. Error(data) if it is longer than `limit` bytes, before anything is read.
std::string read_small_file(const std::filesystem::path& path, int64_t limit);

}  // namespace wmtp
