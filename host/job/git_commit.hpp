// The commit checked out in a folder, read from git's files. git itself is not run, because it executes programs named
// in a repository's configuration (core.fsmonitor, filters, hooks). Uncommitted changes are therefore not detected:
// that would require running filters.
#pragma once

#include <filesystem>
#include <string>

namespace wmtp {

/// 40 or 64 hexadecimal digits. "" outside a repository, before the first commit, with reftable refs, and (as in git)
/// in another user's repository. Reads only small regular files.
std::string git_commit(const std::filesystem::path& folder);

}  // namespace wmtp
