#include "io/scratch_folder.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "base/environment.hpp"
#include "base/error.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr const char* random_part = "XXXXXX";
constexpr int folder_flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

std::string prefix() { return "wmtp-" + std::to_string(geteuid()) + "-"; }

/// Whether only this user and root can replace a folder of this user in `parent`.
bool is_trusted_parent(const fs::path& parent) {
  struct stat found {};
  if (stat(parent.c_str(), &found) != 0) return false;
  const bool others_write = (found.st_mode & (S_IWGRP | S_IWOTH)) != 0;
  const bool trusted = found.st_uid == geteuid() || found.st_uid == 0;
  return trusted && (!others_write || (found.st_mode & S_ISVTX) != 0);
}

/// Whether an open folder has the owner and permissions of a ScratchFolder of this user.
bool is_private(int folder) {
  struct stat found {};
  return fstat(folder, &found) == 0 && S_ISDIR(found.st_mode) && found.st_uid == geteuid() &&
         (found.st_mode & (S_IRWXG | S_IRWXO)) == 0;
}

/// A descriptor that holds the lock, or none. Child programs do not inherit it.
FileDescriptor locked(const fs::path& folder) {
  FileDescriptor lock(open(folder.c_str(), folder_flags));
  const bool is_mine = lock.get() >= 0 && is_private(lock.get()) && flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
  return is_mine ? std::move(lock) : FileDescriptor();
}

/// Whether `path` still refers to the open folder.
bool still_names(const fs::path& path, int folder) {
  struct stat named {
  }, opened{};
  return lstat(path.c_str(), &named) == 0 && fstat(folder, &opened) == 0 && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev;
}

/// The folder, which may not exist, and the variable that names it; "" for the default. Absolute, since processes that
/// use it have working folders of their own.
std::pair<fs::path, std::string> chosen_temporary_folder() {
  std::error_code ignored;  // of a working folder that is gone: the relative path is reported
  for (const char* variable : {"TMPDIR", "TMP", "TEMP", "TEMPDIR"})
    if (const fs::path folder = environment_value(variable); !folder.empty()) {
      const fs::path absolute = fs::absolute(folder, ignored);
      return {absolute.empty() ? folder : absolute, variable};
    }
  return {"/tmp", ""};
}

std::vector<std::string> names_in(int folder) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR*)> listing(fdopendir(fcntl(folder, F_DUPFD_CLOEXEC, 0)), closedir);
  if (!listing) return names;
  rewinddir(listing.get());
  while (const dirent* entry = readdir(listing.get()))
    if (const std::string name = entry->d_name; name != "." && name != "..") names.push_back(name);
  return names;
}

/// Removes a file. False if it is a folder, which then is accessible.
bool unlinked(int folder, const std::string& name) {
  if (unlinkat(folder, name.c_str(), 0) == 0 || errno != EISDIR) return true;
  fchmodat(folder, name.c_str(), S_IRWXU, 0);
  return false;
}

/// A program under test may nest folders more deeply than a process can open, or longer than a path can be: what is in
/// a folder of `top` moves up to `top`. Ignores errors.
void remove_tree(const fs::path& path) {
  chmod(path.c_str(), S_IRWXU);
  const FileDescriptor top(open(path.c_str(), folder_flags));
  int64_t moved = 0;
  const auto move_up = [&](int folder, const std::string& name) {
    while (renameat(folder, name.c_str(), top.get(), std::to_string(++moved).c_str()) != 0)
      if (errno != EEXIST && errno != ENOTEMPTY && errno != ENOTDIR) return;
  };
  for (int64_t before = -1; before != moved;) {
    before = moved;
    for (const std::string& name : names_in(top.get())) {
      if (unlinked(top.get(), name)) continue;
      const FileDescriptor folder(openat(top.get(), name.c_str(), folder_flags));
      for (const std::string& child : names_in(folder.get()))
        if (!unlinked(folder.get(), child)) move_up(folder.get(), child);
      unlinkat(top.get(), name.c_str(), AT_REMOVEDIR);
    }
  }
  rmdir(path.c_str());
}

}  // namespace

fs::path temporary_folder() {
  const auto [folder, variable] = chosen_temporary_folder();
  std::error_code none;
  if (!fs::is_directory(folder, none))
    throw Error(ExitStatus::storage, "no temporary folder: " + folder.string() + " (" +
                                         (variable.empty() ? "used since TMPDIR is not set" : variable) + ")" +
                                         (none ? ": " + none.message() : " is no folder") + "; set TMPDIR to a folder");
  return folder;
}

fs::path persistent_temp_folder(const std::string& name) {
  const fs::path parent = chosen_temporary_folder().first, path = parent / (prefix() + name);
  if (!is_trusted_parent(parent)) return {};
  if (mkdir(path.c_str(), S_IRWXU) == 0) chmod(path.c_str(), S_IRWXU);  // whatever the umask
  const FileDescriptor folder(open(path.c_str(), folder_flags));
  return folder.get() >= 0 && is_private(folder.get()) ? path : fs::path();
}

ScratchFolder::ScratchFolder() {
  static std::once_flag cleaned;
  const fs::path parent = temporary_folder();
  std::call_once(cleaned, remove_abandoned_scratch_folders, parent);
  const auto fail = [&] {
    throw Error(ExitStatus::storage, "cannot create a folder in " + parent.string() + ": " + std::strerror(errno) +
                                         "; set TMPDIR to another folder");
  };
  for (;;) {
    std::string name = (parent / (prefix() + random_part)).string();
    if (!mkdtemp(name.data())) fail();
    path_ = name;
    if (chmod(name.c_str(), S_IRWXU) != 0 && errno != ENOENT) fail();  // whatever the umask
    lock_ = FileDescriptor(open(name.c_str(), folder_flags));
    if (lock_.get() < 0 && errno != ENOENT) fail();
    if (lock_.get() < 0) continue;
    flock(lock_.get(), LOCK_EX);
    // Another process may have removed the folder before it was locked.
    if (still_names(path_, lock_.get())) return;
  }
}

ScratchFolder::~ScratchFolder() { remove_tree(path_); }

void remove_abandoned_scratch_folders(const fs::path& parent) {
  if (!is_trusted_parent(parent)) return;
  const std::string begins = prefix();
  std::error_code ignored;
  for (fs::directory_iterator entry(parent, ignored), end; entry != end && !ignored; entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begins) || name.size() != begins.size() + std::strlen(random_part)) continue;
    const FileDescriptor lock = locked(entry->path());
    if (lock.get() >= 0) remove_tree(entry->path());
  }
}

}  // namespace wmtp
