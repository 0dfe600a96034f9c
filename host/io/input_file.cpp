#include "io/input_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/files.hpp"
#include "io/file_kind.hpp"

namespace wmtp {
namespace {

bool is_below(const std::filesystem::path& path, const std::filesystem::path& folder) {
  return std::mismatch(folder.begin(), folder.end(), path.begin(), path.end()).first == folder.end();
}

/// The number of bytes before the end of the file, at most `count`; -1, with errno, for an error.
int64_t read_up_to(int descriptor, int64_t offset, void* bytes, size_t count) {
  size_t done = 0;
  while (done < count) {
    const ssize_t got = retry_interrupted(
        [&] { return ::pread(descriptor, static_cast<char*>(bytes) + done, count - done, offset + off_t(done)); });
    if (got < 0) return -1;
    if (got == 0) break;
    done += size_t(got);
  }
  return int64_t(done);
}

}  // namespace

bool read_at(int descriptor, const std::filesystem::path& path, int64_t offset, void* bytes, size_t count) {
  const int64_t got = read_up_to(descriptor, offset, bytes, count);
  if (got < 0) throw storage_error("read", path, errno);
  return size_t(got) == count;
}

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  check_is_file(path_);
  file_ = FileDescriptor(retry_interrupted([&] { return ::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
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

std::optional<std::string> read_cached_file(const std::filesystem::path& path, int64_t limit) {
  const FileDescriptor file(retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK); }));
  struct stat status;
  if (file.get() < 0 || ::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size > limit)
    return std::nullopt;
  std::string text(size_t(status.st_size), '\0');
  if (read_up_to(file.get(), 0, text.data(), text.size()) != status.st_size) return std::nullopt;
  return text;
}

void check_link_stays_inside(const std::filesystem::path& file) {
  namespace fs = std::filesystem;
  std::error_code failure, ignored;
  const fs::path folder = fs::canonical(fs::absolute(file).parent_path(), ignored);
  const fs::path target = fs::canonical(file, failure);
  if (failure || is_below(target, folder)) return;  // reading the file reports the failure
  for (fs::path part = folder; part.has_relative_path(); part = part.parent_path())
    if (part.parent_path().filename() == "snapshots" && is_below(target, part.parent_path().parent_path() / "blobs"))
      return;
  throw Error(ExitStatus::data, file.string() + " is a link to " + target.string() +
                                    ", outside of its folder; if it belongs there, copy it in place of the link");
}

std::string read_small_file(const std::filesystem::path& path, int64_t limit) {
  const InputFile file(path);
  if (file.size() > limit) {
    throw Error(ExitStatus::data, path.string() + " has " + std::to_string(file.size()) + " bytes; at most " +
                                      std::to_string(limit) + " are read");
  }
  std::string text(size_t(file.size()), '\0');
  file.read_at(0, text.data(), text.size());
  refuse_pointer(path, text);
  return text;
}

}  // namespace wmtp
