// The texts of experiment files, each read once. Training takes hours; ranks, stages and members of a sweep that start
// later receive the texts that were checked, so later edits of the files have no effect.
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
  /// Reads the texts that another process wrote with `file()`; "": none. Error(bug) if they cannot be read.
  explicit SourceTexts(const std::filesystem::path& written);

  /// The file's text, read by the first call. Throws the errors of read_source.
  const std::string& text(const std::filesystem::path& file);

  /// A file with all texts for child processes, deleted with this object. Only the first call writes it, because a
  /// child process may still read it later: call it after everything is loaded. Error(storage).
  std::filesystem::path file();

 private:
  std::map<std::filesystem::path, std::string> texts_;  ///< by absolute path
  std::unique_ptr<ScratchFolder> folder_;
};

}  // namespace wmtp
