// The commit that is checked out in a folder, read from git's files. git itself is not started, because it runs
// programs that a repository's configuration names (core.fsmonitor, filters, hooks). Uncommitted changes are therefore
// not reported: to find them, git runs filters.
#pragma once

#include <filesystem>
#include <string>

namespace wmtp {

/// 40 or 64 hexadecimal digits. "" outside a repository, before the first commit, with reftable refs, and, like git, in
/// a repository of another user. Reads only small regular files.
std::string git_commit(const std::filesystem::path& folder);

}  // namespace wmtp
