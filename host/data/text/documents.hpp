// Text files as documents, and their split into training and validation ([validation] share). A file is one document,
// or several: one for each line of JSON lines, and those delimited by data.separator; if there can be several, blank
// ones are skipped. Of several documents the last ones, at least one, are held out; a single document is split at the
// last newline before the held-out share, and is entirely training data if there is none. Files may be larger than
// memory, which holds 16 bytes for each document.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiment/experiment.hpp"

namespace wmtp {

/// Byte offsets in a file's text (text_stream.hpp).
struct TextRange {
  int64_t begin = 0, end = 0;
  bool operator==(const TextRange&) const = default;
};

/// The documents of a file to read, in order.
struct TextPart {
  std::filesystem::path file;
  std::vector<TextRange> documents;
  bool as_bytes = false;  ///< data.encoding is "bytes" (text_stream.hpp)
};

std::vector<TextPart> whole_files(const std::vector<std::filesystem::path>& files, bool as_bytes = false);
int64_t document_bytes(const std::vector<TextPart>& parts);

/// How files are divided into documents and split; determined by the experiment.
struct TextSplitting {
  std::string separator;  ///< "": a file, or a line of JSON lines, is one document
  double held_out = 0;  ///< share not trained on: the maximum over this run and the experiments that use it as a stage
  double validation = 0;  ///< share used for validation
  bool as_bytes = false;  ///< data.encoding is "bytes"

  bool takes_files_whole() const { return separator.empty() && held_out == 0; }
  /// The part of the prepared data's key determined by these settings; "" for whole files.
  std::string identity() const;
};
TextSplitting text_splitting(const Experiment& experiment);

struct SplitParts {
  std::vector<TextPart> train, validation;              ///< lists only files with at least one document in this part
  int64_t documents = 0;                                ///< of all files
  std::vector<std::filesystem::path> unseparated = {};  ///< files in which the separator does not occur
};
/// Error(data) if a file cannot be read.
SplitParts split_files(const std::vector<std::filesystem::path>& files, const TextSplitting& splitting);

/// The separator with the other line ends, CRLF or LF, if one of `files` has that; "" if none has.
struct OtherLineEnds {
  std::string separator;
  std::filesystem::path file;  ///< the first that has it
};
OtherLineEnds find_other_line_ends(const std::vector<std::filesystem::path>& files, const TextSplitting& splitting);

}  // namespace wmtp
