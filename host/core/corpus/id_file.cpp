#include "core/corpus/id_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <vector>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/text.hpp"

namespace wmtp {

IdFile::IdFile(const std::filesystem::path& file, bool wide, int64_t vocab_size, std::string hint)
    : path_(file), hint_(std::move(hint)), id_bytes_(wide ? 4 : 2), vocab_size_(vocab_size) {
  check_is_file(file);
  descriptor_ = open(file.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (descriptor_ < 0 || fstat(descriptor_, &status) != 0) {
    const std::string cause = std::strerror(errno);
    if (descriptor_ >= 0) close(descriptor_);
    throw Error(ExitStatus::data, "cannot open " + file.string() + ": " + cause);
  }
  bytes_ = status.st_size;
}

IdFile::~IdFile() { close(descriptor_); }

bool IdFile::read_bytes(int64_t offset, void* out, size_t size) const {
  auto* next = static_cast<char*>(out);
  while (size > 0) {
    const ssize_t got = pread(descriptor_, next, size, offset);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw Error(ExitStatus::data, "cannot read " + path_.string() + ": " + std::strerror(errno));
    if (got == 0) return false;
    next += got;
    offset += got;
    size -= static_cast<size_t>(got);
  }
  return true;
}

void IdFile::read(int64_t first, int64_t count, int64_t* ids) const {
  std::vector<unsigned char> bytes(static_cast<size_t>(count * id_bytes_));
  if (!read_bytes(header_bytes_ + first * id_bytes_, bytes.data(), bytes.size()))
    throw Error(ExitStatus::data, path_.string() + " has become shorter during the run: it had " +
                                      with_thousands(this->count()) + " ids when it was opened, and ids " +
                                      with_thousands(first) + " to " + with_thousands(first + count - 1) +
                                      " are no longer all there; do not change the data of a running experiment");
  const unsigned char* next = bytes.data();
  for (int64_t i = 0; i < count; ++i, next += id_bytes_) {
    int64_t id = next[0] | next[1] << 8;
    if (id_bytes_ == 4) id |= static_cast<int64_t>(next[2]) << 16 | static_cast<int64_t>(next[3]) << 24;
    if (id >= vocab_size_)
      throw Error(ExitStatus::data, path_.string() + ", position " + with_thousands(first + i) + ": id " +
                                        with_thousands(id) + " is not below the vocabulary's size " +
                                        with_thousands(vocab_size_) + hint_);
    ids[i] = id;
  }
}

}  // namespace wmtp
