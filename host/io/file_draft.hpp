// The file that a command makes at -o FILE: a draft beside it until everything is written.
#pragma once

#include <filesystem>

namespace wmtp {

class FileDraft {
 public:
  /// Error(usage) when `target` is there already, before anything is written. Makes missing parent folders.
  explicit FileDraft(const std::filesystem::path& target);
  /// Removes what was not published.
  ~FileDraft();
  FileDraft(const FileDraft&) = delete;
  FileDraft& operator=(const FileDraft&) = delete;

  /// Where to write; not there yet.
  const std::filesystem::path& path() const { return path_; }
  /// Once the file is closed and on the disk.
  void publish();

 private:
  std::filesystem::path target_, path_;
};

}  // namespace wmtp
