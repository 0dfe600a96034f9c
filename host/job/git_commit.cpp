#include "job/git_commit.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <string_view>

#include "base/error.hpp"
#include "io/input_file.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr int64_t max_ref_bytes = 4096, max_packed_refs_bytes = 16 << 20;
constexpr int max_links = 5;  // git's own limit of symbolic refs

/// The text without its last newline; "" if the file is missing or longer than `limit`.
std::string read_text(const fs::path& file, int64_t limit = max_ref_bytes) try {
  std::string text = read_small_file(file, limit);
  text.erase(text.find_last_not_of("\r\n ") + 1);
  return text;
} catch (const Error&) {
  return {};
}

bool is_own(const fs::path& path) {
  struct stat found {};
  return stat(path.c_str(), &found) == 0 && found.st_uid == geteuid();
}

/// The rest of `text` after `key`, or "".
std::string value_of(const std::string& text, std::string_view key) {
  return text.starts_with(key) ? text.substr(key.size()) : std::string();
}

bool is_commit(std::string_view text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == std::string_view::npos;
}

/// The repository: `.git` in the nearest parent folder that has one, or, in a worktree or submodule, the folder named
/// there. Empty if there is none or it belongs to another user.
fs::path repository_of(const fs::path& folder) {
  std::error_code ignored;
  for (fs::path at = fs::canonical(folder.empty() ? "." : folder, ignored); !at.empty(); at = at.parent_path()) {
    const fs::path dot_git = at / ".git";
    const fs::file_status found = fs::status(dot_git, ignored);
    if (fs::exists(found)) {
      const std::string named = value_of(read_text(dot_git), "gitdir: ");
      const fs::path repository = fs::is_directory(found) ? dot_git : named.empty() ? fs::path() : at / named;
      return is_own(at) && is_own(dot_git) && is_own(repository) ? repository : fs::path();
    }
    if (at == at.parent_path()) break;
  }
  return {};
}

std::string packed_ref(const fs::path& common, const std::string& ref) {
  const std::string packed = "\n" + read_text(common / "packed-refs", max_packed_refs_bytes) + "\n";
  const size_t found = packed.find(" " + ref + "\n");
  if (found == std::string::npos) return {};
  const size_t line = packed.rfind('\n', found) + 1;
  return packed.substr(line, found - line);
}

bool is_name_of_ref(const fs::path& ref) {
  return ref.is_relative() && *ref.begin() == "refs" && std::find(ref.begin(), ref.end(), "..") == ref.end();
}

}  // namespace

std::string git_commit(const fs::path& folder) {
  const fs::path repository = repository_of(folder);
  if (repository.empty()) return {};
  const std::string shared = read_text(repository / "commondir");
  const fs::path common = shared.empty() ? repository : repository / shared;
  std::string value = read_text(repository / "HEAD");
  for (int link = 0; link < max_links && !is_commit(value); ++link) {
    const std::string ref = value_of(value, "ref: ");
    if (ref.empty() || !is_name_of_ref(ref)) return {};
    value = read_text(repository / ref);
    if (value.empty()) value = read_text(common / ref);
    if (value.empty()) value = packed_ref(common, ref);
  }
  return is_commit(value) ? value : std::string();
}

}  // namespace wmtp
