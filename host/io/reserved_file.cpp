#include "io/reserved_file.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/text.hpp"

namespace wmtp {
namespace {

/// Compares with the free space first: a file system may take all of it before it fails, and others write there, too.
void reserve(int file, int64_t bytes, const std::string& content, const std::filesystem::path& folder) {
  struct statvfs system {};
  const bool is_known = fstatvfs(file, &system) == 0 && system.f_blocks > 0;
  const auto free_bytes = int64_t(system.f_bavail * system.f_frsize);
  const int code = is_known && free_bytes < bytes ? ENOSPC : posix_fallocate(file, 0, bytes);
  if (code == 0) return;
  const std::string found = is_known ? ", of which " + human_bytes(free_bytes) + " are free," : "";
  throw storage_error("reserve " + human_bytes(bytes) + " for " + content + found + " in", folder, code);
}

/// A file system may refuse direct transfers only when one begins.
void use_direct_transfers(int file) {
  constexpr int64_t alignment = ReservedFile::alignment;
  const int flags = fcntl(file, F_GETFL);
  if (fcntl(file, F_SETFL, flags | O_DIRECT) != 0) return;
  const std::unique_ptr<void, decltype(&std::free)> page(std::aligned_alloc(alignment, alignment), &std::free);
  if (pread(file, page.get(), alignment, 0) < 0 && errno == EINVAL) fcntl(file, F_SETFL, flags);
}

}  // namespace

ReservedFile::ReservedFile(const std::filesystem::path& folder, const std::string& content, int64_t bytes)
    : file_(folder, content, bytes) {
  reserve(file_.descriptor(), bytes, content, folder);
  use_direct_transfers(file_.descriptor());
}

}  // namespace wmtp
