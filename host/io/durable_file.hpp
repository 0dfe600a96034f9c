// Durable files and folders: a file or folder appears under its name complete, and survives a power cut.
//
// 1. everything is written in a draft (io/draft.hpp) beside NAME
// 2. each file is fsynced and closed, errors checked; then a folder is fsynced
// 3. the draft, or the file in it, is renamed to NAME
// 4. the parent folder is fsynced
//
// A crash before 3 leaves only the draft, which no reader opens; the next draft in the same folder removes it, on this
// machine. A file whose fsync failed is abandoned; fsync is never retried. Only FileDraft::replace() overwrites an
// existing file.
//
// In tests every operation can fail or be the last one (FileOperation, FileHook); crash points: crash_points.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>

#include "io/draft.hpp"

namespace wmtp {

enum class FileOperation { create_folder, open, write, fsync, close, rename, sync_folder, remove };
/// Called before each operation. A std::system_error thrown by it becomes the failure of that operation; other
/// exceptions pass through unchanged. Empty by default. [tests only]
using FileHook = std::function<void(FileOperation, const std::filesystem::path&)>;
void set_file_hook(FileHook hook);

/// A new file, written sequentially through a buffer of 1 MiB, or at offsets. Error(storage) with path and cause.
class DurableFile {
 public:
  explicit DurableFile(const std::filesystem::path& path);
  ~DurableFile();  ///< closes; the content of an unfinished file is undefined
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  void write(std::string_view bytes);  ///< appends to the bytes of earlier write() calls
  void write_at(int64_t offset, const void* bytes, size_t count);
  void flush();   ///< writes the buffer to the file; never splits a write()
  void finish();  ///< flush, fsync and close, all checked

 private:
  void check_open() const;

  std::filesystem::path path_;
  int fd_ = -1;
  int64_t position_ = 0;  ///< where the buffer begins
  std::string buffer_;
};

/// A file written in a draft and removed unless it is published.
class FileDraft {
 public:
  explicit FileDraft(std::filesystem::path target);
  const std::filesystem::path& path() const { return path_; }  ///< to be created by the caller
  void publish();                                              ///< [closed] Error(storage) if `target` exists
  void replace();                                              ///< [closed] overwrites `target`

 private:
  std::filesystem::path target_;
  DraftFolder folder_;
  std::filesystem::path path_;
};

/// A folder written as a draft and removed unless it is published.
class FolderDraft {
 public:
  /// Also creates missing parents.
  explicit FolderDraft(std::filesystem::path target);
  const std::filesystem::path& path() const { return draft_.path(); }
  const std::filesystem::path& target() const { return target_; }
  void publish();  ///< [all files finished] Error(storage) if `target` exists

 private:
  std::filesystem::path target_;
  DraftFolder draft_;
};

/// The file that a command creates at -o FILE.
class OutputFile : public FileDraft {
 public:
  /// Error(usage) if `target` exists, before anything is written. Creates missing parents.
  explicit OutputFile(const std::filesystem::path& target);
};

/// The folder that a command creates at -o DIR.
class OutputFolder : public FolderDraft {
 public:
  /// Error(usage) if `target` exists and is not an empty folder, before anything is written.
  explicit OutputFolder(const std::filesystem::path& target);
  void publish();  ///< replaces an empty folder
};

/// Renames within one folder, then fsyncs it; renames back if that fails. Error(storage) if `to` exists.
void rename_durably(const std::filesystem::path& from, const std::filesystem::path& to);
/// Creates a folder and its missing parents, each entry fsynced.
void make_folder_durably(const std::filesystem::path& folder);
/// Deletes a folder and its content.
void remove_folder(const std::filesystem::path& folder);
/// Creates a small file. Error(storage) if it exists.
void write_new_file(const std::filesystem::path& path, std::string_view text);
/// Creates or replaces a small file.
void write_file_durably(const std::filesystem::path& path, std::string_view text);

}  // namespace wmtp
