#include "io/scratch_folder.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <mutex>
#include <string>
#include <system_error>

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
Descriptor locked(const fs::path& folder) {
  Descriptor lock(open(folder.c_str(), folder_flags));
  const bool is_mine = lock.get() >= 0 && is_private(lock.get()) && flock(lock.get(), LOCK_EX | LOCK_NB) == 0;
  return is_mine ? std::move(lock) : Descriptor();
}

/// Whether `path` still refers to the open folder.
bool still_names(const fs::path& path, int folder) {
  struct stat named {
  }, opened{};
  return lstat(path.c_str(), &named) == 0 && fstat(folder, &opened) == 0 && named.st_ino == opened.st_ino &&
         named.st_dev == opened.st_dev;
}

bool is_set(const char* variable) { return !environment_value(variable).empty(); }

}  // namespace

fs::path temporary_folder() {
  const char* const chosen[] = {"TMPDIR", "TMP", "TEMP", "TEMPDIR"};
  const auto set = std::find_if(std::begin(chosen), std::end(chosen), is_set);
  const fs::path folder = set == std::end(chosen) ? "/tmp" : environment_value(*set);
  std::error_code none;
  if (!fs::is_directory(folder, none))
    throw Error(ExitStatus::storage, "no temporary folder: " + folder.string() + " (" +
                                         (set == std::end(chosen) ? "used since TMPDIR is not set" : *set) + ") is " +
                                         (none ? none.message() : "no folder") + "; set TMPDIR to a folder");
  return folder;
}

fs::path lasting_folder(const std::string& name) {
  std::error_code none;
  const fs::path parent = fs::temp_directory_path(none), path = parent / (prefix() + name);
  if (none || !is_trusted_parent(parent)) return {};
  mkdir(path.c_str(), 0700);
  const Descriptor folder(open(path.c_str(), folder_flags));
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
    lock_ = Descriptor(open(name.c_str(), folder_flags));
    if (lock_.get() < 0 && errno != ENOENT) fail();
    if (lock_.get() < 0) continue;
    flock(lock_.get(), LOCK_EX);
    // Another process may have removed the folder before it was locked.
    if (still_names(path_, lock_.get())) return;
  }
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

void remove_abandoned_scratch_folders(const fs::path& parent) {
  if (!is_trusted_parent(parent)) return;
  const std::string begins = prefix();
  std::error_code ignored;
  for (fs::directory_iterator entry(parent, ignored), end; entry != end && !ignored; entry.increment(ignored)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begins) || name.size() != begins.size() + std::strlen(random_part)) continue;
    const Descriptor lock = locked(entry->path());
    std::error_code failure;
    if (lock.get() >= 0) fs::remove_all(entry->path(), failure);
  }
}

}  // namespace wmtp
