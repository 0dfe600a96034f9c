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
    : file_(open(lock_file(run_folder).c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0644)) {
  if (file_.get() < 0 && errno == EEXIST)
    throw Error(ExitStatus::storage,
                run_folder.string() +
                    ": the folder contains a run of another log with the same number and name; move "
                    "it away, or write this log to another folder (--db)");
  if (file_.get() < 0)
    throw Error(ExitStatus::storage, lock_file(run_folder).string() + ": cannot be created: " + std::strerror(errno));
  // Waits for is_held() of another process only. If the file system has no locks, the run continues without one.
  retry_interrupted([&] { return flock(file_.get(), LOCK_EX); });
}

bool RunLock::is_held(const std::filesystem::path& run_folder) {
  const FileDescriptor file(open(lock_file(run_folder).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  // Shared, because two processes may ask at once, and because NFS has no exclusive lock of a file to be read only.
  return file.get() >= 0 && flock(file.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace wmtp
