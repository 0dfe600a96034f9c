// The files of a corpus: order, split, and content hash.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiment/experiment.hpp"

namespace wmtp {

struct TextSplit {
  std::vector<std::filesystem::path> train;
  std::vector<std::filesystem::path> validation;
  std::vector<std::string> warnings = {};  ///< of patterns of data.exclude that exclude nothing
};

/// Validation files are `[validation] files`; without them, if the table is given, one file in twenty (rounded up):
/// those with the smallest hashes of their path relative to the common parent; otherwise none. With `[validation]
/// share` both lists contain all files, split by document (data/text/documents.hpp), or by ids
/// (data/tokens/token_split.hpp). Error(data) if nothing is left for training.
TextSplit split_text(const Experiment& experiment);

/// Training files of a "bpe" tokenizer: `[data.tokenizer] files` as a whole, or the training part. `exclude` does not
/// apply to them, so that experiments with the same files share one tokenizer.
std::vector<std::filesystem::path> tokenizer_files(const Experiment& experiment, const TextSplit& split);

/// Identifies a text corpus: how its files are split (data/text/documents.hpp), and SHA-256 over the names
/// (relative to the common parent, because they determine order and split) and bytes of each list. Reads files whose
/// digests the folder `cache` does not remember (io/file_digests.hpp). Error(data) for a file that is not text
/// (data/text/text_check.hpp).
struct TextContent {
  std::string tokenizer;  ///< "" for "byte"
  std::string train;
  std::string validation;
};
TextContent text_content(const Experiment& experiment, const TextSplit& split, const std::filesystem::path& cache);

/// The files of an experiment's records. With [data.arithmetic] there are no training files until generation.
struct RecordFiles {
  std::vector<std::filesystem::path> train;       ///< may include `[validation] files`, which are held out by problem
  std::vector<std::filesystem::path> validation;  ///< `[validation] files`
  std::vector<std::filesystem::path> hold_out;    ///< `data.hold_out`
  std::vector<std::string> warnings = {};         ///< as of TextSplit
};
RecordFiles record_files(const Experiment& experiment);

/// Warnings of gaps in the files' numbers (io/shard_names.hpp), and of patterns of the experiment's own data.exclude
/// that exclude nothing; those that a stage inherits need not match its data.
std::vector<std::string> file_warnings(const TextSplit& files);
std::vector<std::string> file_warnings(const RecordFiles& files);
/// Lists the files for it; none of kind "random".
std::vector<std::string> data_warnings(const Experiment& experiment);

/// Identifies the sources of records: SHA-256 as in TextContent; for [data.arithmetic] of its settings, not its file.
struct RecordContent {
  std::string tokenizer;  ///< "" for "byte"
  std::string records;
};
RecordContent record_content(const Experiment& experiment, const RecordFiles& files,
                             const std::filesystem::path& cache);

/// SHA-256 over relative names and bytes of all data that the experiment reads, including the tokenizer. For kind
/// "tokens" with data.file: over the file's bytes, without its name. For kind "random": over the kind only.
std::string data_content_hash(const Experiment& experiment, const std::filesystem::path& cache);

}  // namespace wmtp
