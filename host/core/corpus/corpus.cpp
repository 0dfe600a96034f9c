// Order, split and hash of files do not depend on their location: sorting, selection and hashing use paths relative to
// the common parent folder.
#include "core/corpus/corpus.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <system_error>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/sha256.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "core/corpus/id_layout.hpp"
#include "core/documents/documents.hpp"
#include "core/documents/foreign_formats.hpp"
#include "core/experiment/canonical.hpp"
#include "core/tokenizer/tokenizer_files.hpp"
#include "io/file_digests.hpp"

namespace wmtp {

namespace {

namespace fs = std::filesystem;
using Segments = std::vector<std::string>;

constexpr size_t one_file_in = 20;

/// "/a/**/b" -> "a", "**", "b"
Segments segments_of(const fs::path& path) {
  Segments segments;
  for (const auto& part : path.lexically_normal().relative_path())
    if (!part.empty() && part != ".") segments.push_back(part.string());
  return segments;
}

bool has_wildcard(const std::string& segment) { return segment.find_first_of("*?") != std::string::npos; }

/// `*` matches any characters, `?` one. Backtracks only to the last `*`, so the cost is at most quadratic.
bool name_matches(const std::string& name, const std::string& pattern) {
  size_t n = 0, p = 0, star = std::string::npos, star_name = 0;
  while (n < name.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      star_name = n;
    } else if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n])) {
      ++p, ++n;
    } else if (star != std::string::npos) {
      p = star + 1;
      n = ++star_name;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string::npos;
}

/// Whether the pattern matches the path or one of its parent folders.
bool path_matches(const Segments& path, size_t i, const Segments& pattern, size_t p) {
  if (p == pattern.size()) return true;
  if (pattern[p] == "**") {
    if (p + 1 == pattern.size()) return i < path.size();
    for (size_t skip = i; skip <= path.size(); ++skip)
      if (path_matches(path, skip, pattern, p + 1)) return true;
    return false;
  }
  return i < path.size() && name_matches(path[i], pattern[p]) && path_matches(path, i + 1, pattern, p + 1);
}

std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
  std::error_code failure;
  std::vector<fs::directory_entry> entries;
  fs::directory_iterator next(folder, failure);
  for (; !failure && next != fs::directory_iterator(); next.increment(failure)) entries.push_back(*next);
  if (failure) throw Error(ExitStatus::data, "cannot list folder " + folder.string() + ": " + failure.message());
  return entries;
}

/// Adds the files under `folder` that match the pattern's segments from `p` on.
void find_files(const fs::path& folder, const Segments& pattern, size_t p, std::set<fs::path>& found) {
  std::error_code ignored;
  const std::string& segment = pattern[p];
  const bool last = p + 1 == pattern.size();
  if (!has_wildcard(segment)) {
    const fs::path path = folder / segment;
    if (last) {
      if (fs::is_regular_file(path, ignored)) found.insert(path);
    } else if (fs::is_directory(path, ignored)) {
      find_files(path, pattern, p + 1, found);
    }
    return;
  }
  const bool any_depth = segment == "**";
  if (any_depth && !last) find_files(folder, pattern, p + 1, found);
  for (const auto& entry : entries_of(folder)) {
    if (!any_depth && !name_matches(entry.path().filename().string(), segment)) continue;
    if (entry.is_directory(ignored)) {
      if (entry.is_symlink(ignored)) continue;
      if (any_depth)
        find_files(entry.path(), pattern, p, found);
      else if (!last)
        find_files(entry.path(), pattern, p + 1, found);
    } else if (last && entry.is_regular_file(ignored)) {
      found.insert(entry.path());
    }
  }
}

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
std::vector<fs::path> files_of(const Experiment& experiment, const std::vector<std::string>& patterns,
                               const std::vector<std::string>& exclude = {}) {
  const auto resolved = [&](std::vector<std::string> paths) {
    for (std::string& path : paths) path = experiment.resolve(path).string();
    return paths;
  };
  return list_files(resolved(patterns), resolved(exclude));
}

std::set<fs::path> chosen_by_hash(const std::vector<fs::path>& files) {
  const fs::path folder = shared_folder(files);
  std::vector<std::pair<std::string, fs::path>> by_hash;
  for (const auto& file : files) by_hash.emplace_back(sha256_of(file.lexically_relative(folder).string()), file);
  std::sort(by_hash.begin(), by_hash.end());
  by_hash.resize((files.size() + one_file_in - 1) / one_file_in);
  std::set<fs::path> chosen;
  for (const auto& [hash, file] : by_hash) chosen.insert(file);
  return chosen;
}

/// Hashes lists of files: names (relative to their common parent) and bytes. Each file is read at most once.
class ContentHashes {
 public:
  explicit ContentHashes(const fs::path& cache) : of_texts_(cache / "texts.txt"), of_others_(cache / "hashes.txt") {}

  /// `as_text`: checks that they are text files.
  std::string of(const std::vector<fs::path>& files, bool as_text = false) {
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
    for (const auto& file : unknown) {
      if (as_text) check_text_file(file);
      digests_[file] = remembered.read(file, &progress);
    }
  }

  /// Unreadable files count as 0: reading them reports the error.
  static int64_t size_of(const std::vector<fs::path>& files) {
    int64_t bytes = 0;
    std::error_code ignored;
    for (const auto& file : files) bytes += std::max<int64_t>(0, int64_t(fs::file_size(file, ignored)));
    return bytes;
  }

  FileDigests of_texts_;  ///< of files that were checked
  FileDigests of_others_;
  std::map<fs::path, std::string> digests_;
};

}  // namespace

std::vector<fs::path> list_files(const std::vector<std::string>& patterns, const std::vector<std::string>& exclude) {
  std::set<fs::path> found;
  for (const auto& pattern : patterns) {
    const Segments segments = segments_of(pattern);
    std::set<fs::path> matching;
    if (!segments.empty()) find_files("/", segments, 0, matching);
    if (matching.empty()) {
      std::error_code ignored;
      const bool folder = fs::is_directory(pattern, ignored);
      if (!folder && is_there(pattern)) check_is_file(pattern);
      throw Error(
          ExitStatus::data,
          "no file matches " + pattern +
              (folder ? ": it is a folder; write " + (fs::path(pattern) / "**").string() + " for all files under it"
                      : "; check the path (relative paths start at the experiment's folder)"));
    }
    found.merge(matching);
  }
  std::vector<Segments> excluded;
  for (const auto& pattern : exclude) excluded.push_back(segments_of(pattern));
  std::vector<fs::path> files;
  for (const auto& file : found) {
    const Segments path = segments_of(file);
    const bool out = std::any_of(excluded.begin(), excluded.end(), [&](const Segments& pattern) {
      return !pattern.empty() && path_matches(path, 0, pattern, 0);
    });
    if (!out) files.push_back(file);
  }
  return files;
}

TextSplit split_text(const Experiment& experiment) {
  const auto files = files_of(experiment, experiment.data.files, experiment.data.exclude);
  TextSplit split;
  std::set<fs::path> held_out;
  if (experiment.validation.share > 0) {
    split.validation = files;
  } else if (!experiment.validation.files.empty()) {
    split.validation = files_of(experiment, experiment.validation.files);
    held_out.insert(split.validation.begin(), split.validation.end());
  } else if (experiment.validation.given && !files.empty()) {
    held_out = chosen_by_hash(files);
    split.validation.assign(held_out.begin(), held_out.end());
  }
  std::set_difference(files.begin(), files.end(), held_out.begin(), held_out.end(), std::back_inserter(split.train));
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
  return patterns.empty() ? split.train : files_of(experiment, patterns);
}

RecordFiles record_files(const Experiment& experiment) {
  const DataConfig& data = experiment.data;
  RecordFiles files{files_of(experiment, data.files, data.exclude), files_of(experiment, experiment.validation.files),
                    files_of(experiment, data.hold_out)};
  if (files.train.empty() && !data.arithmetic.given)
    throw Error(ExitStatus::data, "no file is left to train on: data.exclude excludes every file of data.files");
  return files;
}

TextContent text_content(const Experiment& experiment, const TextSplit& split, const fs::path& cache) {
  ContentHashes hashes(cache);
  TextContent result;
  const TextSplitting splitting = splitting_of(experiment);
  if (experiment.data.tokenizer.kind == "bpe")
    result.tokenizer = hashes.of(tokenizer_files(experiment, split), /*as_text=*/true);
  if (experiment.data.tokenizer.kind == "bpe" && experiment.data.tokenizer.files.empty())
    result.tokenizer += TextSplitting{splitting.separator, splitting.held_out}.identity();
  if (experiment.data.tokenizer.kind == "file")
    result.tokenizer = tokenizer_hash(experiment.resolve(experiment.data.tokenizer.file));
  result.train = hashes.of(split.train, /*as_text=*/true) + splitting.identity();
  result.validation = hashes.of(split.validation, /*as_text=*/true);
  return result;
}

RecordContent record_content(const Experiment& experiment, const RecordFiles& files, const fs::path& cache) {
  ContentHashes hashes(cache);
  const DataConfig& data = experiment.data;
  const std::string train = hashes.of(files.train) + " " + table_text(experiment, "data.arithmetic");
  RecordContent result;
  if (data.tokenizer.kind == "bpe" && !data.tokenizer.files.empty())
    result.tokenizer = hashes.of(files_of(experiment, data.tokenizer.files), /*as_text=*/true);
  else if (data.tokenizer.kind == "file")
    result.tokenizer = tokenizer_hash(experiment.resolve(data.tokenizer.file));
  else if (data.tokenizer.kind == "bpe")
    result.tokenizer = sha256_of("records " + data.format + " " + data.prompt_template + " " + train);
  result.records = sha256_of(train + " " + hashes.of(files.validation) + " " + hashes.of(files.hold_out));
  return result;
}

std::string data_content_hash(const Experiment& experiment, const fs::path& cache) {
  const DataConfig& data = experiment.data;
  if (data.kind == "random") return sha256_of("random");
  if (data.kind == "tokens") {
    const fs::path file = experiment.resolve(data.file);
    refuse_foreign_format(file, FileContent::tokens);
    id_layout(file, data.dtype);
    ContentHashes hashes(cache);
    const std::string index = has_megatron_index(file) ? " " + hashes.of_file(megatron_index(file)) : "";
    return sha256_of("tokens " + hashes.of_file(file) + index);
  }
  if (data.kind == "records") {
    const RecordContent content = record_content(experiment, record_files(experiment), cache);
    return sha256_of("records " + content.tokenizer + " " + content.records);
  }
  const TextContent content = text_content(experiment, split_text(experiment), cache);
  return sha256_of("text " + content.tokenizer + " " + content.train + " " + content.validation);
}

}  // namespace wmtp
