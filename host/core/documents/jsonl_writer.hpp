// A file of lines that is whole or not there: written beside its place, synced, renamed. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>

namespace wmtp {

/// Error(storage) with path and cause from every function but the destructor, which removes what was not published.
class JsonlWriter {
 public:
  explicit JsonlWriter(std::filesystem::path target);
  ~JsonlWriter();
  JsonlWriter(const JsonlWriter&) = delete;
  JsonlWriter& operator=(const JsonlWriter&) = delete;
  void add(std::string_view line);  ///< without its end of line
  int64_t lines() const { return lines_; }
  /// What stood there before is replaced.
  void publish();

 private:
  std::filesystem::path target_, draft_;
  std::ofstream out_;
  int64_t lines_ = 0;
};

}  // namespace wmtp
