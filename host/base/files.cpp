#include "base/files.hpp"

#include <fcntl.h>

#include <cerrno>
#include <string>
#include <system_error>

namespace wmtp {
namespace {

namespace fs = std::filesystem;

const char* file_type_name(fs::file_type type) {
  switch (type) {
    case fs::file_type::directory:
      return "a folder";
    case fs::file_type::fifo:
      return "a named pipe";
    case fs::file_type::socket:
      return "a socket";
    case fs::file_type::block:
    case fs::file_type::character:
      return "a device";
    default:
      return "of unknown type";
  }
}

std::string advice(int code) {
  if (code == ENOSPC || code == EDQUOT || code == EFBIG) return "free some space there, or choose another folder";
  if (code == EACCES || code == EPERM) return "check the owner and the permissions";
  if (code == EROFS) return "the file system is mounted read-only; choose another folder";
  if (code == EEXIST) return "move it away, or choose another name";
  if (code == ENOENT || code == ENOTDIR) return "check the path";
  if (code == EMFILE || code == ENFILE) return "raise the limit of open files (ulimit -n)";
  return "check the disk";
}

}  // namespace

void open_missing_streams() {
  int opened = 0;
  while (opened >= 0 && opened <= STDERR_FILENO) opened = open("/dev/null", O_RDWR);
  if (opened >= 0) close(opened);
}

void check_is_file(const fs::path& path, ExitStatus status) {
  std::error_code failure;
  const fs::file_type type = fs::status(path, failure).type();
  if (type == fs::file_type::not_found)
    throw Error(status, path.string() + " does not exist; check the path, or restore the file");
  if (!failure && type != fs::file_type::regular)
    throw Error(status, path.string() + " is " + file_type_name(type) + ", not a regular file; specify a regular file");
}

std::vector<fs::path> paths_in(const fs::path& folder) {
  std::vector<fs::path> paths;
  std::error_code failure;
  for (fs::directory_iterator item(folder, failure), end; !failure && item != end; item.increment(failure))
    paths.push_back(item->path());
  if (failure && failure != std::errc::no_such_file_or_directory) throw storage_error("list", folder, failure.value());
  return paths;
}

int64_t bytes_below(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code ended, gone;
  for (fs::recursive_directory_iterator file(folder, ended), end; !ended && file != end; file.increment(ended)) {
    const auto size = file->is_regular_file(gone) ? int64_t(file->file_size(gone)) : 0;
    if (!gone) bytes += size;
  }
  return bytes;
}

Error storage_error(const std::string& action, const std::filesystem::path& path, int code) {
  return Error(ExitStatus::storage, "cannot " + action + " " + path.string() + ": " +
                                        std::generic_category().message(code) + "; " + advice(code));
}

}  // namespace wmtp
