// Order, split and hash of files do not depend on their location: sorting, selection and hashing use paths relative to
// the common parent folder.
#include "data/tokens/corpus.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <system_error>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "data/text/documents.hpp"
#include "data/text/text_check.hpp"
#include "data/tokens/file_patterns.hpp"
#include "data/tokens/token_id_layout.hpp"
#include "data/tokens/token_split.hpp"
#include "experiment/canonical.hpp"
#include "experiment/key_place.hpp"
#include "io/file_digests.hpp"
#include "io/shard_names.hpp"
#include "tokenizer/tokenizer_files.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;
constexpr size_t one_file_in = 20;

fs::path shared_folder(const std::vector<fs::path>& files) {
  if (files.empty()) return {};
  fs::path shared = files.front().parent_path();
  for (const auto& file : files) {
    const fs::path folder = file.parent_path();
    const auto parts = std::mismatch(shared.begin(), shared.end(), folder.begin(), folder.end());
    fs::path both;
    for (auto part = shared.begin(); part != parts.first; ++part) both /= *part;
    shared = both;
  }
  return shared;
}

/// Patterns are relative to the experiment's folder.
std::vector<std::string> resolved(const Experiment& experiment, std::vector<std::string> patterns) {
  for (std::string& pattern : patterns) pattern = experiment.resolve(pattern).string();
  return patterns;
}

/// The files of a key's patterns. Mistakes begin with its place.
std::vector<fs::path> files_of(const Experiment& experiment, const char* key, const std::vector<std::string>& patterns,
                               const std::vector<std::string>& exclude = {}, std::vector<std::string>* idle = nullptr) {
  try {
    return list_files(resolved(experiment, patterns), resolved(experiment, exclude), idle);
  } catch (const Error& error) {
    throw Error(error.status(), key_place(experiment, key) + ": " + key + ": " + error.what());
  }
}

/// Patterns that a stage inherits are absolute, and in no file of its own.
bool is_own(const Experiment& experiment, const std::string& pattern) {
  return fs::path(pattern).is_relative() || experiment.source.find(pattern) != std::string::npos;
}

/// `files`: what is left, where a name that is meant may be.
std::string idle_warning(const Experiment& experiment, const std::string& pattern, const std::vector<fs::path>& files) {
  std::vector<std::string> names;
  for (const fs::path& file : files)
    names.push_back(fs::path(pattern).is_relative() ? file.lexically_relative(experiment.file.parent_path()).string()
                                                    : file.string());
  const bool is_name = pattern.find_first_of("*?") == std::string::npos;
  const std::string near = is_name ? nearest_name(pattern, names) : "";
  return key_place(experiment, "data.exclude") + ": data.exclude: " + printable(pattern) +
         " excludes no file of the data; " +
         (near.empty() ? "check the path (relative paths start at the experiment's folder), or remove it"
                       : "did you mean " + printable(near) + "?");
}

/// Files of `patterns` that data.exclude leaves.
std::vector<fs::path> files_left(const Experiment& experiment, const char* key,
                                 const std::vector<std::string>& patterns, std::vector<std::string>& warnings) {
  const std::vector<std::string>& exclude = experiment.data.exclude;
  std::vector<std::string> idle;
  std::vector<fs::path> files = files_of(experiment, key, patterns, exclude, &idle);
  for (const std::string& pattern : exclude)
    if (is_own(experiment, pattern) && std::ranges::count(idle, experiment.resolve(pattern).string()) > 0)
      warnings.push_back(idle_warning(experiment, pattern, files));
  return files;
}

/// What data.files and data.exclude select; data.file, which is no pattern, is one file.
std::vector<fs::path> data_files(const Experiment& experiment, std::vector<std::string>& warnings) {
  const DataConfig& data = experiment.data;
  if (data.file.empty()) return files_left(experiment, "data.files", data.files, warnings);
  const fs::path file = experiment.resolve(data.file);
  if (data.file.find_first_of("*?") != std::string::npos && !is_there(file))
    throw Error(ExitStatus::data, file.string() + " does not exist: data.file names one file; name patterns of files " +
                                      "in data.files instead, as in files = [\"" + data.file + "\"]");
  return data.exclude.empty() ? std::vector<fs::path>{file}
                              : files_left(experiment, "data.file", {data.file}, warnings);
}

std::vector<fs::path> joined(const std::vector<std::vector<fs::path>>& lists) {
  std::vector<fs::path> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

std::vector<fs::path> chosen_by_hash(const std::vector<fs::path>& files) {
  const fs::path folder = shared_folder(files);
  std::vector<std::pair<std::string, fs::path>> by_hash;
  for (const auto& file : files) by_hash.emplace_back(sha256_hex(file.lexically_relative(folder).string()), file);
  std::sort(by_hash.begin(), by_hash.end());
  by_hash.resize((files.size() + one_file_in - 1) / one_file_in);
  std::vector<fs::path> chosen;
  for (const auto& [hash, file] : by_hash) chosen.push_back(file);
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

/// Hashes lists of files: names (relative to their common parent) and bytes. Each file is read at most once.
class ContentHashes {
 public:
  explicit ContentHashes(const fs::path& cache)
      : of_texts_(cache / "checked_texts.txt"), of_others_(cache / "hashes.txt") {}

  /// `as_text`: checks that they are text files (data/text/text_check.hpp).
  std::string hash(const std::vector<fs::path>& files, bool as_text = false) {
    read_unknown(files, as_text);
    const fs::path folder = shared_folder(files);
    Sha256 list;
    for (const auto& file : files)
      list.add(file.lexically_relative(folder).string()).add(std::string_view("\0", 1)).add(digests_.at(file));
    return list.hex();
  }

  std::string of_file(const fs::path& file) {
    read_unknown({file}, /*as_text=*/false);
    return digests_.at(file);
  }

 private:
  void read_unknown(const std::vector<fs::path>& files, bool as_text) {
    FileDigests& remembered = as_text ? of_texts_ : of_others_;
    std::vector<fs::path> unknown;
    for (const auto& file : files) {
      if (digests_.count(file)) continue;
      if (const auto digest = remembered.known(file))
        digests_[file] = *digest;
      else
        unknown.push_back(file);
    }
    WorkProgress progress("hashing the data", size_of(unknown), WorkProgress::Unit::bytes);
    InvalidUtf8Counter invalid;
    invalid.add_valid(size_of(files) - size_of(unknown));
    for (const auto& file : unknown) {
      // Only valid texts are remembered as such, so that the others are counted again.
      const bool is_valid = !as_text || invalid.count(file) == 0;
      digests_[file] = (is_valid ? remembered : of_others_).read(file, &progress);
    }
    if (as_text) invalid.refuse_too_many();
  }

  /// Unreadable files count as 0: reading them reports the error.
  static int64_t size_of(const std::vector<fs::path>& files) {
    int64_t bytes = 0;
    std::error_code ignored;
    for (const auto& file : files) bytes += std::max<int64_t>(0, int64_t(fs::file_size(file, ignored)));
    return bytes;
  }

  FileDigests of_texts_;  ///< of valid texts
  FileDigests of_others_;
  std::map<fs::path, std::string> digests_;
};

/// Of one data.file only its bytes count, of several files also their names, which determine their order.
std::string token_content_hash(const Experiment& experiment, const fs::path& cache) {
  const TokenSplit split = split_tokens(experiment);
  ContentHashes hashes(cache);
  const auto hash_of = [&](const std::vector<TokenRange>& ranges, bool with_names) {
    std::vector<fs::path> files;
    for (const TokenRange& range : ranges) files.push_back(range.file);
    std::string text = with_names ? hashes.hash(files) : hashes.of_file(files.front());
    for (const fs::path& file : files)
      if (has_megatron_index(file)) text += " " + hashes.of_file(megatron_index(file));
    return text;
  };
  std::string text = "tokens " + hash_of(split.train, experiment.data.file.empty());
  if (const double held_out = held_out_share(experiment); held_out > 0) text += printed(" up to %.17g", held_out);
  if (!split.validation.empty()) text += " validation " + hash_of(split.validation, true);
  if (experiment.data.tokenizer.given)
    text += " tokenizer " + tokenizer_hash(experiment.resolve(experiment.data.tokenizer.file));
  return sha256_hex(text);
}

}  // namespace

TextSplit split_text(const Experiment& experiment) {
  TextSplit split;
  const auto files = data_files(experiment, split.warnings);
  split.train = files;
  if (experiment.validation.share > 0) {
    split.validation = files;
  } else if (!experiment.validation.files.empty() || experiment.validation.given) {
    split.validation = experiment.validation.files.empty()
                           ? chosen_by_hash(files)
                           : files_of(experiment, "validation.files", experiment.validation.files);
    split.train = without(files, split.validation);
  }
  if (split.train.empty())
    throw Error(ExitStatus::data, "no file is left to train on: data.files matches " + with_thousands(files.size()) +
                                      " after data.exclude, and validation takes " +
                                      with_thousands(split.validation.size()) +
                                      "; add files to data.files, choose others in validation.files, or hold out the "
                                      "end of each file with validation.share = 0.1");
  return split;
}

std::vector<fs::path> tokenizer_files(const Experiment& experiment, const TextSplit& split) {
  const auto& patterns = experiment.data.tokenizer.files;
  return patterns.empty() ? split.train : files_of(experiment, "data.tokenizer.files", patterns);
}

RecordFiles record_files(const Experiment& experiment) {
  const DataConfig& data = experiment.data;
  RecordFiles files;
  files.train = files_left(experiment, "data.files", data.files, files.warnings);
  files.validation = files_of(experiment, "validation.files", experiment.validation.files);
  files.hold_out = files_of(experiment, "data.hold_out", data.hold_out);
  if (files.train.empty() && !data.arithmetic.given)
    throw Error(ExitStatus::data, "no file is left to train on: data.exclude excludes every file of data.files");
  return files;
}

std::vector<std::string> file_warnings(const TextSplit& files) {
  std::vector<std::string> found = gaps_in_numbers(joined({files.train, files.validation}));
  std::ranges::copy(files.warnings, std::back_inserter(found));
  return found;
}

std::vector<std::string> file_warnings(const RecordFiles& files) {
  std::vector<std::string> found = gaps_in_numbers(joined({files.train, files.validation, files.hold_out}));
  std::ranges::copy(files.warnings, std::back_inserter(found));
  return found;
}

std::vector<std::string> data_warnings(const Experiment& experiment) {
  if (experiment.data.kind == DataKind::random) return {};
  return experiment.data.kind == DataKind::records ? file_warnings(record_files(experiment))
                                                   : file_warnings(split_text(experiment));
}

TextContent text_content(const Experiment& experiment, const TextSplit& split, const fs::path& cache) {
  ContentHashes hashes(cache);
  TextContent result;
  const TextSplitting splitting = text_splitting(experiment);
  const bool as_text = !splitting.as_bytes;
  if (experiment.data.tokenizer.kind == TokenizerKind::bpe)
    result.tokenizer = hashes.hash(tokenizer_files(experiment, split), as_text);
  if (experiment.data.tokenizer.kind == TokenizerKind::bpe) {
    const bool is_split = experiment.data.tokenizer.files.empty();
    result.tokenizer +=
        TextSplitting{is_split ? splitting.separator : "", is_split ? splitting.held_out : 0, 0, splitting.as_bytes}
            .identity();
  }
  if (experiment.data.tokenizer.kind == TokenizerKind::file)
    result.tokenizer = tokenizer_hash(experiment.resolve(experiment.data.tokenizer.file));
  result.train = hashes.hash(split.train, as_text) + splitting.identity();
  result.validation = hashes.hash(split.validation, as_text);
  return result;
}

RecordContent record_content(const Experiment& experiment, const RecordFiles& files, const fs::path& cache) {
  ContentHashes hashes(cache);
  const DataConfig& data = experiment.data;
  const std::string train = hashes.hash(files.train) + " " + table_text(experiment, "data.arithmetic");
  RecordContent result;
  if (data.tokenizer.kind == TokenizerKind::bpe && !data.tokenizer.files.empty())
    result.tokenizer =
        hashes.hash(files_of(experiment, "data.tokenizer.files", data.tokenizer.files), /*as_text=*/true);
  else if (data.tokenizer.kind == TokenizerKind::file)
    result.tokenizer = tokenizer_hash(experiment.resolve(data.tokenizer.file));
  else if (data.tokenizer.kind == TokenizerKind::bpe)
    result.tokenizer = sha256_hex("records " + data.format + " " + data.prompt_template + " " + train);
  result.records = sha256_hex(train + " " + hashes.hash(files.validation) + " " + hashes.hash(files.hold_out));
  return result;
}

std::string data_content_hash(const Experiment& experiment, const fs::path& cache) {
  const DataConfig& data = experiment.data;
  if (data.kind == DataKind::random) return sha256_hex("random");
  if (data.kind == DataKind::tokens) return token_content_hash(experiment, cache);
  if (data.kind == DataKind::records) {
    const RecordContent content = record_content(experiment, record_files(experiment), cache);
    return sha256_hex("records " + content.tokenizer + " " + content.records);
  }
  const TextContent content = text_content(experiment, split_text(experiment), cache);
  return sha256_hex("text " + content.tokenizer + " " + content.train + " " + content.validation);
}

}  // namespace wmtp
