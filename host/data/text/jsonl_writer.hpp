// Writes a file of JSON lines, complete or absent (io/durable_file.hpp).
#pragma once

#include <filesystem>
#include <string_view>

#include "io/durable_file.hpp"

namespace wmtp {

/// Every function throws Error(storage) with path and cause.
class JsonlWriter {
 public:
  explicit JsonlWriter(const std::filesystem::path& target) : draft_(target), file_(draft_.path()) {}
  /// `line` without its newline.
  void add(std::string_view line) {
    file_.write(line);
    file_.write("\n");
  }
  /// Replaces an existing file.
  void publish() {
    file_.finish();
    draft_.replace();
  }

 private:
  FileDraft draft_;
  DurableFile file_;
};

}  // namespace wmtp
