// A temporary file without a name: only this process can reach it, and the kernel removes it when the process ends for
// any reason.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "base/files.hpp"

namespace wmtp {

class NamelessFile {
 public:
  /// Empty. `content`: for messages, "activations"; also `bytes`, if its size is known. Error(storage) if the folder is
  /// missing or cannot be written.
  NamelessFile(std::filesystem::path folder, std::string content, std::optional<int64_t> bytes = std::nullopt);

  // Error(storage) if the system fails, or the file ends within what is read. [any thread]
  void read(int64_t begin, void* bytes, size_t count) const;
  void write(int64_t begin, const void* bytes, size_t count) const;

  int descriptor() const { return file_.get(); }

 private:
  std::filesystem::path folder_;
  std::string content_;
  FileDescriptor file_;
};

}  // namespace wmtp
