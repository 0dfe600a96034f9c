#include "io/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/files.hpp"

namespace wmtp {

bool read_at(int descriptor, const std::filesystem::path& path, int64_t offset, void* bytes, size_t count) {
  auto* next = static_cast<char*>(bytes);
  while (count > 0) {
    const ssize_t got = retry_interrupted([&] { return ::pread(descriptor, next, count, offset); });
    if (got < 0) throw storage_error("read", path, errno);
    if (got == 0) return false;
    next += got;
    offset += got;
    count -= static_cast<size_t>(got);
  }
  return true;
}

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  check_is_file(path_);
  file_ = Descriptor(retry_interrupted([&] { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC); }));
  if (descriptor() < 0) throw storage_error("open", path_, errno);
  struct stat status;
  if (::fstat(descriptor(), &status) != 0) throw storage_error("examine", path_, errno);
  size_ = status.st_size;
}

void InputFile::read_at(int64_t offset, void* bytes, size_t count) const {
  if (!wmtp::read_at(descriptor(), path_, offset, bytes, count))
    throw Error(ExitStatus::data, path_.string() + " is truncated: " + std::to_string(count) + " bytes at byte " +
                                      std::to_string(offset) + " were wanted");
}

std::string read_small_file(const std::filesystem::path& path, int64_t limit) {
  const InputFile file(path);
  if (file.size() > limit) {
    throw Error(ExitStatus::data, path.string() + " has " + std::to_string(file.size()) + " bytes; at most " +
                                      std::to_string(limit) + " are read");
  }
  std::string text(static_cast<size_t>(file.size()), '\0');
  file.read_at(0, text.data(), text.size());
  return text;
}

}  // namespace wmtp
