#include "data/tokens/file_patterns.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>
#include <utility>

#include "base/error.hpp"
#include "base/files.hpp"
#include "base/normal_path.hpp"
#include "io/shard_names.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using Segments = std::vector<std::string>;
using FileId = std::pair<dev_t, ino_t>;  ///< equal for all names of one file

FileId id_of(const fs::path& file) {
  struct stat status;
  return ::stat(file.c_str(), &status) == 0 ? FileId{status.st_dev, status.st_ino} : FileId{};
}

/// "/a/**/b" -> "a", "**", "b"
Segments segments_of(const fs::path& path) {
  Segments segments;
  for (const auto& part : normal_path(path).relative_path()) segments.push_back(part.string());
  return segments;
}

bool has_wildcard(const std::string& segment) { return segment.find_first_of("*?") != std::string::npos; }

/// Whether wildcards leave out the name although they match its characters.
bool is_hidden(const std::string& name, const std::string& pattern) {
  const bool is_saved_by_emacs = name.starts_with('#') && name.ends_with('#') && name.size() > 1;
  return (name.starts_with('.') && !pattern.starts_with('.')) || (name.ends_with('~') && !pattern.ends_with('~')) ||
         (is_saved_by_emacs && !pattern.starts_with('#'));
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

bool is_folder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool is_link(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(fs::symlink_status(path, ignored));
}

/// Whether it is the folder of a repository in the cache of Hugging Face: snapshots/REVISION contains the names, which
/// are links to blobs/HASH.
bool is_hub_repository(const fs::path& folder) {
  return is_folder(folder / "blobs") && is_folder(folder / "snapshots");
}

/// The folder of the revision in such a repository that contains `folder`, or is it; empty if there is none.
fs::path hub_revision(const fs::path& folder) {
  std::error_code ignored;
  for (fs::path at = fs::canonical(folder, ignored); at.has_relative_path(); at = at.parent_path())
    if (at.parent_path().filename() == "snapshots" && is_hub_repository(at.parent_path().parent_path())) return at;
  return {};
}

class PatternSearch {
 public:
  explicit PatternSearch(Segments pattern) : pattern_(std::move(pattern)) {
    if (pattern_.empty()) return;
    search_folder({"/", 0});
    // Links last, so that what they name is found under its own name, if that is among the matches.
    for (size_t i = 0; i < links_.size(); ++i) search_folder(SearchPosition(links_[i]));
  }

  const std::set<fs::path>& found() const { return found_; }              ///< regular files
  const std::set<fs::path>& by_wildcard() const { return by_wildcard_; }  ///< those that no name in it tells exactly
  const std::set<fs::path>& unread() const { return unread_; }            ///< links to nothing, pipes, devices

  void refuse_missing_shards() const {
    for (const fs::path& missing : missing_shards({by_wildcard_.begin(), by_wildcard_.end()}))
      if (name_matches(missing.filename().string(), pattern_.back()))
        throw Error(ExitStatus::data, missing.string() +
                                          " is missing, of a set whose other files are there; download it, "
                                          "or name the files to read one by one");
  }

 private:
  /// A folder whose contents the pattern's names from `next` on are to match.
  struct SearchPosition {
    fs::path folder;
    size_t next = 0;
  };

  void search_folder(const SearchPosition& at) {
    struct stat status;
    if (::stat(at.folder.c_str(), &status) != 0) {
      if (is_link(at.folder)) unread_.insert(at.folder);
      return;
    }
    if (!visited_.emplace(status.st_dev, status.st_ino, at.next).second) return;
    const std::string& segment = pattern_[at.next];
    if (!has_wildcard(segment) || is_there(at.folder / segment))
      take_name(at);
    else
      take_matches(at, segment);
  }

  void take_name(const SearchPosition& at) {
    std::error_code ignored;
    const fs::path path = at.folder / pattern_[at.next];
    if (!is_last(at.next))
      search_folder({path, at.next + 1});
    else if (fs::is_regular_file(path, ignored))
      found_.insert(path);
    else if (fs::exists(fs::symlink_status(path, ignored)) && !is_folder(path))
      unread_.insert(path);
  }

  void take_matches(const SearchPosition& at, const std::string& segment) {
    const bool any_depth = segment == "**", any_name = segment.find_first_not_of("*?") == std::string::npos;
    const bool is_hub = any_name && is_hub_repository(at.folder);
    if (any_depth && !is_last(at.next)) search_folder({at.folder, at.next + 1});
    for (const fs::directory_entry& entry : entries_of(at.folder)) {
      const std::string name = entry.path().filename().string();
      if (is_hidden(name, segment) || (!any_depth && !name_matches(name, segment))) continue;
      if (is_hub && (name == "blobs" || name == "refs")) continue;
      std::error_code ignored;
      if (entry.is_directory(ignored)) {
        if (!any_depth && is_last(at.next)) continue;
        const SearchPosition below{entry.path(), any_depth ? at.next : at.next + 1};
        if (entry.is_symlink(ignored))
          links_.push_back(below);
        else
          search_folder(below);
      } else if (!is_last(at.next)) {
        // A link to a folder that is gone. One to a file, as its name tells, is looked at only if all of the pattern
        // matches.
        if (!entry.path().has_extension() && entry.is_symlink(ignored) && !is_there(entry.path()))
          unread_.insert(entry.path());
      } else if (entry.is_regular_file(ignored)) {
        found_.insert(entry.path());
        by_wildcard_.insert(entry.path());
      } else {
        unread_.insert(entry.path());
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
  std::set<fs::path> found_, by_wildcard_, unread_;
  std::vector<SearchPosition> links_;
  std::set<std::tuple<dev_t, ino_t, size_t>> visited_;  ///< folders, each with the `next` of its SearchPosition
};

/// Paths without links.
class RealPaths {
 public:
  fs::path of(const fs::path& file) {
    std::error_code ignored;
    if (is_link(file)) return fs::weakly_canonical(file, ignored);
    const auto [folder, is_new] = folders_.try_emplace(file.parent_path());
    if (is_new) folder->second = fs::weakly_canonical(file.parent_path(), ignored);
    return folder->second / file.filename();
  }

 private:
  std::map<fs::path, fs::path> folders_;
};

/// Whether files are among those that patterns name, whatever links lead to the files, and whatever links the patterns
/// go through.
class Exclusion {
 public:
  Exclusion(const std::vector<std::string>& patterns, const std::set<fs::path>& found, RealPaths& real) : real_(real) {
    for (const std::string& pattern : patterns)
      if (const Segments written = segments_of(pattern); !written.empty()) add(pattern, written, found);
    for (const fs::path& file : found)
      if (matches(file)) files_.insert(id_of(file));
  }

  bool has(const fs::path& file) const { return files_.contains(id_of(file)); }

  /// By its name only. Notes which patterns match.
  bool matches(const fs::path& path) {
    bool any = false;
    for (Pattern& one : patterns_)
      if (matches(path, one.segments)) any = one.matches_any = true;
    return any;
  }

  /// The pattern matches no path that matches() was asked about, and names none of the found files in another way.
  bool is_idle(const std::string& pattern) const {
    return std::none_of(patterns_.begin(), patterns_.end(),
                        [&](const Pattern& one) { return one.written == pattern && one.matches_any; });
  }

 private:
  struct Pattern {
    std::string written;
    Segments segments;  ///< of a pattern through links also those of its real path
    bool matches_any = false;
  };

  bool matches(const fs::path& path, const Segments& pattern) {
    return path_matches(segments_of(path), 0, pattern, 0) || path_matches(segments_of(real_.of(path)), 0, pattern, 0);
  }

  void add(const std::string& pattern, const Segments& written, const std::set<fs::path>& found) {
    fs::path folder = "/";
    auto rest = written.begin();
    for (; rest != written.end() && (!has_wildcard(*rest) || is_there(folder / *rest)); ++rest) folder /= *rest;
    std::error_code ignored;
    const Segments real_folder = segments_of(fs::weakly_canonical(folder, ignored));
    Segments resolved = real_folder;
    resolved.insert(resolved.end(), rest, written.end());
    patterns_.push_back({pattern, written});
    if (resolved != written) patterns_.push_back({pattern, std::move(resolved)});
    Pattern& added = patterns_.back();
    // What is in none of the found folders can only be other names of the files.
    const Segments written_folder(written.begin(), rest);
    if (std::any_of(found.begin(), found.end(),
                    [&](const fs::path& file) { return matches(file, written_folder) || matches(file, real_folder); }))
      return;
    const PatternSearch search(written);
    std::set<FileId> named;
    for (const fs::path& file : search.found()) named.insert(id_of(file));
    added.matches_any = !named.empty() && std::any_of(found.begin(), found.end(), [&](const fs::path& file) {
      return named.contains(id_of(file));
    });
    files_.merge(named);
  }

  RealPaths& real_;
  std::vector<Pattern> patterns_;
  std::set<FileId> files_;
};

/// Says why what a pattern matches cannot be read.
[[noreturn]] void refuse_unread(const fs::path& path) {
  std::error_code failure;
  const bool is_gone = fs::status(path, failure).type() == fs::file_type::not_found;
  if (is_gone && is_link(path))
    throw Error(ExitStatus::data, path.string() + " is a link to a file or folder that does not exist; download or " +
                                      "restore that, or remove the link");
  if (failure == std::errc::too_many_symbolic_link_levels)
    throw Error(ExitStatus::data,
                path.string() + " is a link that leads back to itself; remove it, or exclude it with data.exclude");
  check_is_file(path);
  throw Error(ExitStatus::data, path.string() + " cannot be examined: " + failure.message());
}

/// Also if all but one are excluded, because revisions share files, which would be excluded too.
void refuse_several_revisions(const std::set<fs::path>& files) {
  std::map<fs::path, fs::path> revisions;  // of folders
  std::map<fs::path, fs::path> known;      // of repositories
  for (const fs::path& file : files) {
    const auto [folder, is_new] = revisions.try_emplace(file.parent_path());
    if (is_new) folder->second = hub_revision(file.parent_path());
    const fs::path& revision = folder->second;
    if (revision.empty()) continue;
    const fs::path& other = known.try_emplace(revision.parent_path(), revision).first->second;
    if (other != revision)
      throw Error(ExitStatus::data, revision.parent_path().string() + " has the revisions " +
                                        other.filename().string() + " and " + revision.filename().string() +
                                        "; name the folder of one");
  }
}

/// As `gunzip -k` leaves them. `files` are sorted.
void refuse_packed_copies(const std::vector<fs::path>& files, const std::set<fs::path>& by_wildcard) {
  for (const fs::path& packed : files) {
    if (packed.extension() != ".gz" && packed.extension() != ".zst") continue;
    const fs::path unpacked = fs::path(packed).replace_extension();
    if (by_wildcard.contains(packed) && by_wildcard.contains(unpacked) &&
        std::binary_search(files.begin(), files.end(), unpacked))
      throw Error(ExitStatus::data, unpacked.string() + " and " + packed.string() +
                                        " look like one text, as it is and packed, which would be read twice; remove "
                                        "one, exclude it with data.exclude, or name both");
  }
}

/// Names that downloading programs give to files until all of them has arrived: corpus.txt.part.
void refuse_unfinished(const std::vector<fs::path>& files, const std::set<fs::path>& by_wildcard) {
  constexpr std::array endings{".incomplete", ".part", ".partial", ".crdownload", ".aria2", ".tmp"};
  for (const fs::path& file : files)
    if (by_wildcard.contains(file) && file.stem().has_extension() &&
        std::ranges::find(endings, file.extension().string()) != endings.end())
      throw Error(ExitStatus::data, file.string() +
                                        " looks like a download that is not finished; finish it, remove or rename the "
                                        "file, or exclude it with data.exclude");
}

}  // namespace

std::vector<fs::path> list_files(const std::vector<std::string>& patterns, const std::vector<std::string>& exclude,
                                 std::vector<std::string>* idle) {
  std::set<fs::path> found, by_wildcard, unread;
  for (const auto& pattern : patterns) {
    const PatternSearch search(segments_of(pattern));
    search.refuse_missing_shards();
    refuse_several_revisions(search.found());
    if (search.found().empty() && search.unread().empty())
      throw Error(ExitStatus::data,
                  "no file matches " + pattern +
                      (is_folder(pattern) ? ": it is a folder; write " + (fs::path(pattern) / "**").string() +
                                                " for all files under it"
                                          : "; check the path (relative paths start at the experiment's folder)"));
    found.insert(search.found().begin(), search.found().end());
    by_wildcard.insert(search.by_wildcard().begin(), search.by_wildcard().end());
    unread.insert(search.unread().begin(), search.unread().end());
  }
  RealPaths real;
  Exclusion excluded(exclude, found, real);
  for (const fs::path& path : unread)
    if (!excluded.matches(path)) refuse_unread(path);
  if (idle)
    std::copy_if(exclude.begin(), exclude.end(), std::back_inserter(*idle),
                 [&](const std::string& pattern) { return excluded.is_idle(pattern); });
  std::map<FileId, fs::path> names;
  for (const fs::path& file : found) {
    if (excluded.has(file)) continue;
    const auto [known, is_new] = names.try_emplace(id_of(file), file);
    if (!is_new && real.of(file) == file && real.of(known->second) != known->second) known->second = file;
  }
  std::vector<fs::path> files;
  for (const auto& [id, file] : names) files.push_back(file);
  std::sort(files.begin(), files.end());
  refuse_packed_copies(files, by_wildcard);
  refuse_unfinished(files, by_wildcard);
  return files;
}

std::vector<fs::path> without(const std::vector<fs::path>& files, const std::vector<fs::path>& others) {
  std::set<FileId> ids;
  for (const fs::path& file : others) ids.insert(id_of(file));
  std::vector<fs::path> rest;
  std::copy_if(files.begin(), files.end(), std::back_inserter(rest),
               [&](const fs::path& file) { return !ids.contains(id_of(file)); });
  return rest;
}

}  // namespace wmtp
