// Durable files and folders: what is renamed into place is whole, and survives a power cut.
//
// A folder: 1. everything is written under NAME.tmp-PID  2. each file fsynced and closed, errors checked
// 3. the folder fsynced  4. renamed to NAME  5. the parent fsynced. A crash before 4 leaves NAME.tmp-* only, which no
// reader looks at and remove_leftovers() (retention.hpp) clears. A failed fsync gives the file up; it is never retried.
// An existing file or folder is never overwritten, but by write_file_durably, which replaces it whole.
// Every operation can be made to fail, or to be the last one, in tests (FileOperation, FileHook).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

namespace wmtp {

enum class FileOperation { create_folder, open, write, fsync, close, rename, sync_folder, remove };
/// Called before each operation. Throwing std::system_error from it is that operation's failure; other exceptions pass
/// through unchanged. Empty by default. [tests only]
using FileHook = std::function<void(FileOperation, const std::filesystem::path&)>;
void set_file_hook(FileHook hook);

/// A new file, written front to back or at offsets. Error(storage) with path and cause on any failure.
class DurableFile {
 public:
  explicit DurableFile(const std::filesystem::path& path);
  ~DurableFile();  ///< closes; a file that was not finished is worthless
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  void write(const void* bytes, size_t count);  ///< after the bytes of the write() before
  void write_at(int64_t offset, const void* bytes, size_t count);
  void finish();  ///< fsync and close, both checked

 private:
  std::filesystem::path path_;
  int fd_ = -1;
  int64_t position_ = 0;
};

/// Steps 1 and 3 to 5 for one writer. Removes what it made unless it was published.
class FolderDraft {
 public:
  /// Makes NAME.tmp-PID beside `target`, and missing parents. What an earlier process of the same number left under
  /// that name is removed first.
  explicit FolderDraft(std::filesystem::path target);
  ~FolderDraft();
  FolderDraft(const FolderDraft&) = delete;
  FolderDraft& operator=(const FolderDraft&) = delete;
  const std::filesystem::path& path() const { return path_; }
  void publish();

 private:
  std::filesystem::path target_;
  std::filesystem::path path_;
  bool published_ = false;
};

/// "NAME.tmp-PID" beside `target`.
std::filesystem::path draft_path(const std::filesystem::path& target);
/// Steps 3 to 5. `target` must not exist. Error(storage); then there is no `target`.
void publish_folder(const std::filesystem::path& temporary, const std::filesystem::path& target);
/// Steps 4 and 5. `to` must not exist, in the same parent. When the parent cannot be fsynced the name is taken back.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);
/// A folder with its missing parents, each one's entry fsynced.
void make_folder_durably(const std::filesystem::path& folder);
/// A folder and all that is in it.
void remove_folder(const std::filesystem::path& folder);
/// A small file that is not there yet, written and finished.
void write_new_file(const std::filesystem::path& path, std::string_view text);
/// A small file, replaced whole.
void write_file_durably(const std::filesystem::path& path, std::string_view text);

}  // namespace wmtp
