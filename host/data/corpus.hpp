// Text corpora by file patterns: which files, in which order, in which split, and what identifies their content.
// Knows no LibTorch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiment/experiment.hpp"

namespace wmtp {

/// Regular files that match any of `patterns` (absolute; `*` and `?` within a name, `**` over folders), without those
/// that match any of `exclude`, sorted by path, each once. Symbolic links to folders are not followed.
/// A pattern that matches nothing is Error(data) naming it, unless it is one of `exclude`.
std::vector<std::filesystem::path> list_files(const std::vector<std::string>& patterns,
                                              const std::vector<std::string>& exclude);

struct TextSplit {
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> validation;
};

/// Validation files are those of `[validation] files`; without that table's files one file in twenty, chosen by the
/// hash of its path relative to the folder all files share, when `[validation]` is given; otherwise none. Error(data)
/// when the training part is empty.
TextSplit split_text(const Experiment& experiment);

/// SHA-256 over names (relative) and bytes of everything that the data of this experiment is read from, tokenizer
/// included. For kind "random": of the kind alone.
std::string data_content_hash(const Experiment& experiment);

}  // namespace wmtp
