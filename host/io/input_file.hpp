// Reading files that nobody vouches for. pread instead of a mapping wherever everything is read: a failing disk or a
// file that shrinks meanwhile gives an Error, where a mapping gives SIGBUS.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

namespace wmtp {

/// A regular file, open for reading. Error(data) when it is missing or something else than a file; Error(storage) when
/// the system cannot read it, which says nothing about its content.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  ~InputFile();
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  int64_t size() const { return size_; }
  int descriptor() const { return fd_; }
  /// Error(data) when the file ends before.
  void read_at(int64_t offset, void* bytes, size_t count) const;

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  int64_t size_ = 0;
};

/// Error(data) when it is longer than `limit`, before anything is read.
std::string read_small_file(const std::filesystem::path& path, int64_t limit);

}  // namespace wmtp
