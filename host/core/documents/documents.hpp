// Documents of text files, and which of them are held out ([validation] share). A file is one document, or many between
// data.separator, of which blank ones are left out. Of several documents the last ones are held out, one at least; a
// single one is cut behind the last newline before the share begins, and is trained on whole where there is none. Files
// may be larger than memory. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"

namespace wmtp {

/// Bytes of a file.
struct TextRange {
  int64_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

/// What is read of a file, in order; each range is a document.
struct TextPart {
  std::filesystem::path file;
  std::vector<TextRange> documents;
};

std::vector<TextPart> whole_files(const std::vector<std::filesystem::path>& files);
/// Of all documents together.
int64_t bytes_of(const std::vector<TextPart>& parts);

/// How the documents of files are found and split; a function of the experiment.
struct TextSplitting {
  std::string separator;  ///< "": a file is one document
  double held_out = 0;    ///< share that is not trained on: the larger one of its own and of who names it as a stage
  double validation = 0;  ///< share that validation reads

  bool takes_files_whole() const { return separator.empty() && held_out == 0; }
  /// What prepared data depend on; "" where files are taken whole.
  std::string identity() const;
};
TextSplitting splitting_of(const Experiment& experiment);

struct SplitParts {
  std::vector<TextPart> train, validation;  ///< files without a document in a part are left out of it
};
/// Error(data) when a file cannot be read.
SplitParts split_files(const std::vector<std::filesystem::path>& files, const TextSplitting& splitting);

}  // namespace wmtp
