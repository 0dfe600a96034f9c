// Reading by position, without a shared file offset: safe from many threads, and a file that shrinks is told.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>

#include "base/error.hpp"

namespace wmtp {

/// Reads `size` bytes from `offset`; false when the file ends before. Error(data) when it cannot be read.
inline bool read_at(int descriptor, const std::filesystem::path& file, int64_t offset, void* out, size_t size) {
  auto* next = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = pread(descriptor, next, size, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(ExitStatus::data, "cannot read " + file.string() + ": " + std::strerror(errno));
    if (got == 0) return false;
    next += got;
    offset += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

}  // namespace wmtp
