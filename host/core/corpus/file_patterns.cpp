#include "core/corpus/file_patterns.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/normal_path.hpp"
#include "io/shard_names.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using Segments = std::vector<std::string>;

/// "/a/**/b" -> "a", "**", "b"
Segments segments_of(const fs::path& path) {
  Segments segments;
  for (const auto& part : normal_path(path).relative_path()) segments.push_back(part.string());
  return segments;
}

bool has_wildcard(const std::string& segment) { return segment.find_first_of("*?") != std::string::npos; }

/// Whether wildcards leave out the name although they match its characters.
bool is_hidden(const std::string& name, const std::string& pattern) {
  return (name.starts_with('.') && !pattern.starts_with('.')) || (name.ends_with('~') && !pattern.ends_with('~'));
}

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

/// The files that match one pattern.
class PatternSearch {
 public:
  explicit PatternSearch(Segments pattern) : pattern_(std::move(pattern)) {
    if (pattern_.empty()) return;
    look_in({"/", 0});
    // Links last, so that what they name is found under its own name, if that is among the matches.
    for (size_t i = 0; i < links_.size(); ++i) look_in(Place(links_[i]));
    for (const fs::path& missing : missing_shards({by_wildcard_.begin(), by_wildcard_.end()}))
      if (name_matches(missing.filename().string(), pattern_.back()))
        throw Error(ExitStatus::data, missing.string() +
                                          " is missing, of a set whose other files are there; download it, "
                                          "or name the files to read one by one");
  }

  std::set<fs::path> found() && { return std::move(found_); }

 private:
  /// A folder whose contents the pattern's names from `next` on are to match.
  struct Place {
    fs::path folder;
    size_t next = 0;
  };

  void look_in(const Place& at) {
    struct stat status;
    if (::stat(at.folder.c_str(), &status) != 0 || !visited_.emplace(status.st_dev, status.st_ino, at.next).second)
      return;
    const std::string& segment = pattern_[at.next];
    if (!has_wildcard(segment) || is_there(at.folder / segment))
      take_name(at);
    else
      take_matches(at, segment);
  }

  void take_name(const Place& at) {
    std::error_code ignored;
    const fs::path path = at.folder / pattern_[at.next];
    if (!is_last(at.next))
      look_in({path, at.next + 1});
    else if (fs::is_regular_file(path, ignored))
      found_.insert(path);
  }

  void take_matches(const Place& at, const std::string& segment) {
    const bool any_depth = segment == "**";
    if (any_depth && !is_last(at.next)) look_in({at.folder, at.next + 1});
    for (const fs::directory_entry& entry : entries_of(at.folder)) {
      const std::string name = entry.path().filename().string();
      if (is_hidden(name, segment) || (!any_depth && !name_matches(name, segment))) continue;
      std::error_code ignored;
      if (!entry.is_directory(ignored)) {
        if (is_last(at.next) && entry.is_regular_file(ignored)) {
          found_.insert(entry.path());
          by_wildcard_.insert(entry.path());
        }
      } else if (any_depth || !is_last(at.next)) {
        const Place below{entry.path(), any_depth ? at.next : at.next + 1};
        if (entry.is_symlink(ignored))
          links_.push_back(below);
        else
          look_in(below);
      }
    }
  }

  static std::vector<fs::directory_entry> entries_of(const fs::path& folder) {
    std::error_code failure;
    std::vector<fs::directory_entry> entries;
    fs::directory_iterator next(folder, failure);
    for (; !failure && next != fs::directory_iterator(); next.increment(failure)) entries.push_back(*next);
    if (failure) throw Error(ExitStatus::data, "cannot list folder " + folder.string() + ": " + failure.message());
    std::sort(entries.begin(), entries.end());  // which of several links is followed does not depend on the file system
    return entries;
  }

  bool is_last(size_t index) const { return index + 1 == pattern_.size(); }

  Segments pattern_;
  std::set<fs::path> found_, by_wildcard_;
  std::vector<Place> links_;
  std::set<std::tuple<dev_t, ino_t, size_t>> visited_;  ///< folders, each with the `next` of its Place
};

}  // namespace

std::vector<fs::path> list_files(const std::vector<std::string>& patterns, const std::vector<std::string>& exclude) {
  std::set<fs::path> found;
  for (const auto& pattern : patterns) {
    std::set<fs::path> matching = PatternSearch(segments_of(pattern)).found();
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

}  // namespace wmtp
