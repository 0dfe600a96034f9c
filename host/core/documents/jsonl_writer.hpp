// Writes a file of lines that is complete or absent: a temporary file in the same folder, synced, then renamed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace wmtp {

/// Every function but the destructor throws Error(storage) with path and cause. The destructor removes an unpublished
/// file.
class JsonlWriter {
 public:
  explicit JsonlWriter(std::filesystem::path target);
  ~JsonlWriter();
  JsonlWriter(const JsonlWriter&) = delete;
  JsonlWriter& operator=(const JsonlWriter&) = delete;
  void add(std::string_view line);  ///< without the newline
  int64_t lines() const { return lines_; }
  /// Replaces an existing file.
  void publish();

 private:
  std::filesystem::path target_, draft_;
  std::ofstream out_;
  int64_t lines_ = 0;
};

}  // namespace wmtp
