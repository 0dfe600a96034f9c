#include "io/run_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

namespace wmtp {
namespace {

std::filesystem::path lock_file(const std::filesystem::path& run_folder) { return run_folder / "lock"; }

}  // namespace

RunLock::RunLock(const std::filesystem::path& run_folder)
    : fd_(open(lock_file(run_folder).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
  if (fd_ < 0 && errno == EEXIST)
    throw Error(ExitStatus::storage, run_folder.string() +
                                         ": found the files of another log's run of this number and name; move them "
                                         "away, or write this log to another folder (--db)");
  if (fd_ < 0)
    throw Error(ExitStatus::storage, lock_file(run_folder).string() + ": cannot be created: " + std::strerror(errno));
  flock(fd_, LOCK_EX | LOCK_NB);  // a file system without locks: the run continues without one
}

RunLock::~RunLock() { close(fd_); }

bool RunLock::is_held(const std::filesystem::path& run_folder) {
  const int fd = open(lock_file(run_folder).c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  const bool held = flock(fd, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  close(fd);
  return held;
}

}  // namespace wmtp
