#include "base/storage_error.hpp"

#include <cerrno>
#include <system_error>

namespace wmtp {
namespace {

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

Error storage_error(const std::string& action, const std::filesystem::path& path, int code) {
  return Error(ExitStatus::storage, "cannot " + action + " " + path.string() + ": " +
                                        std::generic_category().message(code) + "; " + advice(code));
}

}  // namespace wmtp
