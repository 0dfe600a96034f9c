// Path checks, file descriptors and system-call errors. Every path that the program reads must name a regular file, or
// a folder where folders are allowed: a pipe or a device could block the program or never end.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {

/// Opens /dev/null as each of the descriptors 0, 1 and 2 that is closed. Otherwise the next file to be opened would get
/// that number, and messages would be written into it. [first in main()]
void open_missing_streams();

/// Also false if the path cannot be examined.
inline bool is_there(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

/// Error(`status`) with the type of `path`, unless it is a regular file or a link to one. Opens nothing; accepts a path
/// that it cannot examine, because opening it will report the cause.
void check_is_file(const std::filesystem::path& path, ExitStatus status = ExitStatus::data);

/// What a folder contains, in no order; nothing if it is missing. Error(storage).
std::vector<std::filesystem::path> paths_in(const std::filesystem::path& folder);

/// Sum of the file sizes. Throws std::filesystem::filesystem_error if a file is missing.
inline int64_t total_bytes(const std::vector<std::filesystem::path>& files) {
  int64_t bytes = 0;
  for (const auto& file : files) bytes += int64_t(std::filesystem::file_size(file));
  return bytes;
}

/// The sum of the sizes of the files below a folder, as far as they can be examined.
int64_t bytes_below(const std::filesystem::path& folder);

/// "cannot ACTION PATH: cause; what to do", from an errno.
Error storage_error(const std::string& action, const std::filesystem::path& path, int code);

/// A file descriptor that is closed with its owner.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() { reset(); }
  int get() const { return number_; }  ///< -1: none
  void reset() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

/// Repeats a system call that a signal interrupted.
template <class Call>
auto retry_interrupted(Call call) {
  auto result = call();
  while (result < 0 && errno == EINTR) result = call();
  return result;
}

}  // namespace wmtp
