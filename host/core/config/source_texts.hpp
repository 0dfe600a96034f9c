// The texts of experiments' files, each read once. A process that trains takes hours, and an edit meanwhile must not
// reach the ranks, stages and members of a sweep that start later: they are handed the texts that were checked.
// Knows no LibTorch.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>

#include "io/scratch_folder.hpp"

namespace wmtp {

class SourceTexts {
 public:
  SourceTexts() = default;
  /// Those that another process wrote with `file()`; "": none. Error(bug) where it cannot be read.
  explicit SourceTexts(const std::filesystem::path& written);

  /// Read when it is first asked for. Errors as read_source.
  const std::string& of(const std::filesystem::path& file);

  /// A file with all texts, for the processes that this one starts; it is deleted with this object. Only the first call
  /// writes it, because a process may be reading it at the next: call it once everything is loaded. Error(storage).
  std::filesystem::path file();

 private:
  std::map<std::filesystem::path, std::string> texts_;  ///< by absolute path
  std::unique_ptr<ScratchFolder> folder_;
};

}  // namespace wmtp
