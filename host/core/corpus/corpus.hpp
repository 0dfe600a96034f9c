// Text corpora by file patterns: which files, in which order, in which split, and what identifies their content.
// Knows no LibTorch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"

namespace wmtp {

/// Regular files that match any of `patterns` (absolute; `*` and `?` within a name, `**` over folders), without those
/// that match any of `exclude` or lie in a folder that does, sorted by path, each once. Symbolic links to folders are
/// not followed where a pattern has wildcards. A pattern that matches nothing, or names a pipe or a device, is
/// Error(data) naming it, unless it is one of `exclude`.
std::vector<std::filesystem::path> list_files(const std::vector<std::string>& patterns,
                                              const std::vector<std::string>& exclude);

struct TextSplit {
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> validation;
};

/// Validation files are those of `[validation] files`; without that table's files one file in twenty (rounded up),
/// those whose path relative to the folder all files share has the smallest hashes, when `[validation]` is given;
/// otherwise none. With `[validation] share` both are all files, of which each part has other documents
/// (documents.hpp). Error(data) when the training part is empty.
TextSplit split_text(const Experiment& experiment);

/// The files a "bpe" tokenizer is trained on: those of `[data.tokenizer] files` (whole), or the training part. Without
/// `exclude`, so that two experiments that name the same files share one tokenizer.
std::vector<std::filesystem::path> tokenizer_files(const Experiment& experiment, const TextSplit& split);

/// What a text corpus consists of: how its files are split, where they are (documents.hpp), and SHA-256 over the names
/// (relative to the folder that the files of the list share: they decide order and split) and bytes of each list, each
/// file read once. Error(data) for one that is no text (foreign_formats.hpp).
struct TextContent {
  std::string tokenizer;  ///< "" for "byte"
  std::string train;
  std::string validation;
};
TextContent text_content(const Experiment& experiment, const TextSplit& split);

/// The files of an experiment's records. With [data.arithmetic] there are none to train on before they are made.
struct RecordFiles {
  std::vector<std::filesystem::path> train;       ///< files of `[validation] files` among them: held out by problem
  std::vector<std::filesystem::path> validation;  ///< those of `[validation] files`
  std::vector<std::filesystem::path> hold_out;    ///< those of `data.hold_out`
};
RecordFiles record_files(const Experiment& experiment);

/// What records are made from: SHA-256 as in TextContent, with the settings of [data.arithmetic] in place of its file.
struct RecordContent {
  std::string tokenizer;  ///< "" for "byte"
  std::string records;
};
RecordContent record_content(const Experiment& experiment, const RecordFiles& files);

/// SHA-256 over names (relative) and bytes of everything that the data of this experiment is read from, tokenizer
/// included. For kind "tokens": over the file's bytes. For kind "random": of the kind alone.
std::string data_content_hash(const Experiment& experiment);

}  // namespace wmtp
