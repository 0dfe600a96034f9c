#include "io/synced_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "base/error.hpp"

namespace wmtp {

namespace {

constexpr size_t buffer_bytes = 1 << 20;

}  // namespace

SyncedFile::SyncedFile(const std::filesystem::path& file) : file_(file) {
  descriptor_ = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (descriptor_ < 0) fail("create");
  buffer_.reserve(buffer_bytes + 64);
}

SyncedFile::~SyncedFile() {
  if (descriptor_ >= 0) close(descriptor_);
}

void SyncedFile::add(std::string_view bytes) {
  buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  if (buffer_.size() >= buffer_bytes) flush();
}

void SyncedFile::finish() {
  flush();
  if (fsync(descriptor_) != 0) fail("sync");
  const int descriptor = descriptor_;
  descriptor_ = -1;
  if (close(descriptor) != 0) fail("close");
}

void SyncedFile::flush() {
  for (size_t done = 0; done < buffer_.size();) {
    const ssize_t wrote = write(descriptor_, buffer_.data() + done, buffer_.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail("write");
    done += static_cast<size_t>(wrote);
  }
  buffer_.clear();
}

void SyncedFile::fail(const char* what) const {
  throw Error(ExitStatus::storage, std::string("cannot ") + what + " " + file_.string() + ": " + std::strerror(errno) +
                                       "; free space, or name another folder with log.database");
}

}  // namespace wmtp
