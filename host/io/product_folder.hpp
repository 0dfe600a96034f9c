// The folder that a command makes at -o DIR: a draft beside it until everything is written (durable_file.hpp).
#pragma once

#include <filesystem>
#include <optional>

#include "io/durable_file.hpp"

namespace wmtp {

class ProductFolder {
 public:
  /// Error(usage) when `target` is there and is not an empty folder, before anything is written.
  explicit ProductFolder(const std::filesystem::path& target);
  const std::filesystem::path& path() const { return draft_->path(); }  ///< of the draft
  void publish();

 private:
  std::filesystem::path target_;
  std::optional<FolderDraft> draft_;
};

}  // namespace wmtp
