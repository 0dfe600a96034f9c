#include "io/durable_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <system_error>

#include "base/files.hpp"
#include "base/normal_path.hpp"
#include "io/crash_points.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t buffer_bytes = 1 << 20;

FileHook& file_hook() {
  static FileHook hook;
  return hook;
}

void announce(FileOperation operation, const fs::path& path, const char* action) {
  if (!file_hook()) return;
  try {
    file_hook()(operation, path);
  } catch (const std::system_error& failure) {
    throw storage_error(action, path, failure.code().value());
  }
}

fs::path parent_of(const fs::path& path) {
  const fs::path parent = path.parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

void sync(const fs::path& path, FileOperation operation, int flags) {
  constexpr auto action = "make durable";
  announce(operation, path, action);
  const FileDescriptor file(retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | flags); }));
  if (file.get() < 0 || ::fsync(file.get()) != 0) throw storage_error(action, path, errno);
}

void sync_folder(const fs::path& folder) { sync(folder, FileOperation::sync_folder, O_DIRECTORY); }

/// 0 or errno. renameat2 checks for an existing target atomically; some network file systems support only rename.
int rename_to_new(const fs::path& from, const fs::path& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  struct stat status;
  if (::lstat(to.c_str(), &status) == 0) return EEXIST;
  return ::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

template <typename Between>
void rename_then_sync(const fs::path& from, const fs::path& to, Between between) {
  announce(FileOperation::rename, from, "rename");
  if (const int code = rename_to_new(from, to); code != 0)
    throw storage_error("rename " + from.string() + " to", to, code);
  between();
  try {
    sync_folder(parent_of(to));
  } catch (...) {
    rename_to_new(to, from);
    throw;
  }
}

void close_checked(int& fd, const fs::path& path) {
  announce(FileOperation::close, path, "close");
  const int closing = fd;
  fd = -1;  // Linux frees the descriptor even if close fails
  if (::close(closing) != 0 && errno != EINTR) throw storage_error("close", path, errno);
}

/// For the draft of a folder.
fs::path path_in_made_parent(const fs::path& target) {
  make_folder_durably(parent_of(target));
  fs::path path = draft_path(target);
  announce(FileOperation::create_folder, path, "create the folder");
  return path;
}

fs::path checked_output_file(const fs::path& target) {
  std::error_code ignored;
  if (!target.has_filename() || fs::is_directory(target, ignored))
    throw Error(ExitStatus::usage, "-o " + target.string() + " is a folder; specify a file that does not exist");
  if (fs::exists(fs::symlink_status(target, ignored)))
    throw Error(ExitStatus::usage, "-o " + target.string() + " already exists; choose another file, or remove it");
  make_folder_durably(target.parent_path());
  return target;
}

fs::path checked_output_folder(const fs::path& target) {
  const fs::path path = normal_path(target);
  std::error_code ignored;
  if (!path.has_filename() || path.filename() == ".." || path.filename() == ".")
    throw Error(ExitStatus::usage,
                "-o " + target.string() + " is not a valid name for a new folder; choose another name");
  if (fs::exists(fs::symlink_status(path, ignored)) &&
      !(fs::is_directory(path, ignored) && fs::is_empty(path, ignored)))
    throw Error(ExitStatus::usage,
                "-o " + target.string() + " already exists and is not an empty folder; choose another");
  return path;
}

}  // namespace

void set_file_hook(FileHook hook) { file_hook() = std::move(hook); }

DurableFile::DurableFile(const fs::path& path) : path_(path) {
  announce(FileOperation::open, path_, "create");
  fd_ = retry_interrupted([&] { return ::open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644); });
  if (fd_ < 0) throw storage_error("create", path_, errno);
}

DurableFile::~DurableFile() {
  if (fd_ >= 0) ::close(fd_);
}

void DurableFile::check_open() const {
  if (fd_ < 0) throw Error(ExitStatus::bug, path_.string() + " is already finished");
}

void DurableFile::write(std::string_view bytes) {
  check_open();
  const bool fits = buffer_.size() + bytes.size() <= buffer_bytes;
  if (!fits) flush();
  if (bytes.size() <= buffer_bytes) {
    buffer_ += bytes;
    return;
  }
  write_at(position_, bytes.data(), bytes.size());
  position_ += int64_t(bytes.size());
}

void DurableFile::write_at(int64_t offset, const void* bytes, size_t count) {
  check_open();
  announce(FileOperation::write, path_, "write");
  const auto* next = static_cast<const char*>(bytes);
  while (count > 0) {
    const ssize_t written = retry_interrupted([&] { return ::pwrite(fd_, next, count, offset); });
    if (written < 0) throw storage_error("write", path_, errno);
    if (written == 0) throw storage_error("write", path_, ENOSPC);
    next += written;
    offset += written;
    count -= size_t(written);
  }
}

void DurableFile::flush() {
  if (buffer_.empty()) return;
  write_at(position_, buffer_.data(), buffer_.size());
  position_ += int64_t(buffer_.size());
  buffer_.clear();
}

void DurableFile::finish() {
  check_open();
  flush();
  announce(FileOperation::fsync, path_, "make durable");
  if (::fsync(fd_) != 0) throw storage_error("make durable", path_, errno);
  close_checked(fd_, path_);
}

FileDraft::FileDraft(fs::path target)
    : target_(std::move(target)), folder_(draft_path(target_)), path_(folder_.path() / target_.filename()) {}

void FileDraft::publish() {
  sync(path_, FileOperation::fsync, 0);
  rename_durably(path_, target_);
}

void FileDraft::replace() {
  sync(path_, FileOperation::fsync, 0);
  struct stat status;
  if (::lstat(target_.c_str(), &status) == 0 && (S_ISCHR(status.st_mode) || S_ISBLK(status.st_mode)))
    throw storage_error("replace the device", target_, EEXIST);
  announce(FileOperation::rename, path_, "rename");
  if (::rename(path_.c_str(), target_.c_str()) != 0) throw storage_error("rename", path_, errno);
  sync_folder(parent_of(target_));
}

FolderDraft::FolderDraft(fs::path target) : target_(std::move(target)), draft_(path_in_made_parent(target_)) {}

void FolderDraft::publish() {
  sync_folder(path());
  crash_here(CrashPoint::folder_synced);
  rename_then_sync(path(), target_, [] { crash_here(CrashPoint::renamed); });
}

OutputFile::OutputFile(const fs::path& target) : FileDraft(checked_output_file(target)) {}

OutputFolder::OutputFolder(const fs::path& target) : FolderDraft(checked_output_folder(target)) {}

void OutputFolder::publish() {
  ::rmdir(target().c_str());  // removes only an empty folder; publishing reports anything else
  FolderDraft::publish();
}

void rename_durably(const fs::path& from, const fs::path& to) {
  rename_then_sync(from, to, [] {});
}

void make_folder_durably(const fs::path& folder) {
  std::error_code ignored;
  if (folder.empty() || fs::is_directory(folder, ignored)) return;
  make_folder_durably(folder.parent_path());
  announce(FileOperation::create_folder, folder, "create the folder");
  if (::mkdir(folder.c_str(), 0755) != 0) {
    if (errno == EEXIST && fs::is_directory(folder, ignored)) return;
    throw storage_error("create the folder", folder, errno);
  }
  sync_folder(parent_of(folder));
}

void remove_folder(const fs::path& folder) {
  announce(FileOperation::remove, folder, "remove");
  std::error_code failure;
  fs::remove_all(folder, failure);
  if (failure) throw storage_error("remove", folder, failure.value());
}

void write_new_file(const fs::path& path, std::string_view text) {
  DurableFile file(path);
  file.write(text);
  file.finish();
}

void write_file_durably(const fs::path& path, std::string_view text) {
  FileDraft draft(path);
  write_new_file(draft.path(), text);
  draft.replace();
}

}  // namespace wmtp
