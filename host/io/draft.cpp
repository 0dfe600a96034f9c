#include "io/draft.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <fstream>

#include "base/secret.hpp"
#include "base/sha256.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view mark = ".tmp-";
constexpr size_t num_digits = 6;  // of each half

/// Equal in all containers of this machine, until it boots again.
const std::string& digits_of_boot() {
  static const std::string digits = [] {
    std::string id;
    std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
    return (id.empty() ? random_token() : sha256_hex(id)).substr(0, num_digits);
  }();
  return digits;
}

FileDescriptor opened(const fs::path& folder) {
  return FileDescriptor(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

fs::path draft_path(const fs::path& target) {
  return fs::path(target.string() + std::string(mark) + digits_of_boot() + random_token().substr(0, num_digits));
}

std::string draft_target(const std::string& name) {
  const size_t at = name.rfind(mark);
  if (at == std::string::npos || name.size() != at + mark.size() + 2 * num_digits) return "";
  return name.find_first_not_of("0123456789abcdef", at + mark.size()) == std::string::npos ? name.substr(0, at) : "";
}

FileDescriptor lock_abandoned_draft(const fs::path& draft) {
  FileDescriptor lock = opened(draft);
  return lock.get() >= 0 && flock(lock.get(), LOCK_EX | LOCK_NB) == 0 ? std::move(lock) : FileDescriptor();
}

void remove_abandoned_drafts(const fs::path& folder) {
  std::error_code failure, ignored;
  for (fs::directory_iterator entry(folder, failure), end; !failure && entry != end; entry.increment(failure)) {
    const std::string name = entry->path().filename().string(), target = draft_target(name);
    if (target.empty() || name.compare(target.size() + mark.size(), num_digits, digits_of_boot()) != 0) continue;
    if (const FileDescriptor lock = lock_abandoned_draft(entry->path()); lock.get() >= 0)
      fs::remove_all(entry->path(), ignored);
  }
}

DraftFolder::DraftFolder(const fs::path& path) : path_(path), removed_(path_) {
  remove_abandoned_drafts(path_.has_parent_path() ? path_.parent_path() : fs::path("."));
  struct stat found {};
  do {
    if (mkdir(path_.c_str(), 0755) != 0) throw storage_error("create the folder", path_, errno);
    lock_ = opened(path_);
    if (lock_.get() < 0 && errno != ENOENT) {
      const int code = errno;
      rmdir(path_.c_str());
      throw storage_error("open", path_, code);
    }
    flock(lock_.get(), LOCK_EX);                // where there are no locks, nobody can take this one
  } while (lstat(path_.c_str(), &found) != 0);  // removed by another process before it was locked
}

DraftFolder::~DraftFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

}  // namespace wmtp
