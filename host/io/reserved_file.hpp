// A temporary file without a name (io/nameless_file.hpp) whose space is reserved when it is created, so that the disk
// cannot be full later. Nothing is cached in memory if the file system can transfer directly (O_DIRECT).
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "io/nameless_file.hpp"

namespace wmtp {

class ReservedFile {
 public:
  /// Positions, sizes and addresses of all transfers are multiples of this.
  static constexpr int64_t alignment = 4096;

  /// Zeros. `content`: for messages, "the optimizer's state". Error(storage) with the bytes wanted and found if the
  /// folder is missing, cannot be written, or has not enough space.
  ReservedFile(const std::filesystem::path& folder, const std::string& content, int64_t bytes);

  // Error(storage) if the system fails. [any thread]
  void read(int64_t begin, void* bytes, size_t count) const { file_.read(begin, bytes, count); }
  void write(int64_t begin, const void* bytes, size_t count) const { file_.write(begin, bytes, count); }

 private:
  NamelessFile file_;
};

}  // namespace wmtp
