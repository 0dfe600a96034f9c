#include "io/reserved_file.hpp"

#include <fcntl.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <memory>

#include "base/text.hpp"

namespace wmtp {

ReservedFile::ReservedFile(std::filesystem::path folder, std::string content, int64_t bytes)
    : folder_(std::move(folder)), content_(std::move(content)) {
  std::string path = (folder_ / "wmtp-reserved-XXXXXX").string();
  file_ = FileDescriptor(mkostemp(path.data(), O_CLOEXEC));
  if (file_.get() < 0)
    throw storage_error("create a file of " + human_bytes(bytes) + " for " + content_ + " in", folder_, errno);
  unlink(path.c_str());
  reserve(bytes);
  use_direct_transfers();
}

/// Compares with the free space first: a file system may take all of it before it fails, and others write there, too.
void ReservedFile::reserve(int64_t bytes) const {
  struct statvfs system {};
  const bool is_known = fstatvfs(file_.get(), &system) == 0 && system.f_blocks > 0;
  const auto free_bytes = int64_t(system.f_bavail * system.f_frsize);
  const int code = is_known && free_bytes < bytes ? ENOSPC : posix_fallocate(file_.get(), 0, bytes);
  if (code == 0) return;
  const std::string found = is_known ? ", of which " + human_bytes(free_bytes) + " are free," : "";
  throw storage_error("reserve " + human_bytes(bytes) + " for " + content_ + found + " in", folder_, code);
}

/// A file system may refuse direct transfers only when one begins.
void ReservedFile::use_direct_transfers() const {
  const int flags = fcntl(file_.get(), F_GETFL);
  if (fcntl(file_.get(), F_SETFL, flags | O_DIRECT) != 0) return;
  const std::unique_ptr<void, decltype(&std::free)> page(std::aligned_alloc(alignment, alignment), &std::free);
  if (pread(file_.get(), page.get(), alignment, 0) < 0 && errno == EINVAL) fcntl(file_.get(), F_SETFL, flags);
}

void ReservedFile::read(int64_t begin, void* bytes, size_t count) const {
  char* const to = static_cast<char*>(bytes);
  for (size_t done = 0; done < count;) {
    const ssize_t got =
        retry_interrupted([&] { return pread(file_.get(), to + done, count - done, begin + int64_t(done)); });
    if (got <= 0) throw storage_error("read " + content_ + " from a file in", folder_, got < 0 ? errno : EIO);
    done += size_t(got);
  }
}

void ReservedFile::write(int64_t begin, const void* bytes, size_t count) const {
  const char* const from = static_cast<const char*>(bytes);
  for (size_t done = 0; done < count;) {
    const ssize_t written =
        retry_interrupted([&] { return pwrite(file_.get(), from + done, count - done, begin + int64_t(done)); });
    if (written <= 0) throw storage_error("write " + content_ + " to a file in", folder_, written < 0 ? errno : EIO);
    done += size_t(written);
  }
}

}  // namespace wmtp
