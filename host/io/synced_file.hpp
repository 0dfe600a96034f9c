// SyncedFile: a new file, written from its beginning to its end through a buffer and synced to the disk.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

namespace wmtp {

class SyncedFile {
 public:
  /// Creates `file`, or empties it. Error(storage) here and below when the disk refuses.
  explicit SyncedFile(const std::filesystem::path& file);
  ~SyncedFile();
  SyncedFile(const SyncedFile&) = delete;
  SyncedFile& operator=(const SyncedFile&) = delete;

  void add(std::string_view bytes);
  /// Writes what is left and syncs it to the disk.
  void finish();

 private:
  void flush();
  [[noreturn]] void fail(const char* what) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
  std::vector<char> buffer_;
};

}  // namespace wmtp
