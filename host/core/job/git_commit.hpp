// Which commit a folder stands at, read from git's own files. git itself is not started: in a repository of someone
// else's making it runs what the configuration names (core.fsmonitor, filters, hooks). So nothing is said of changes
// that are not committed: to find them, git runs the filters.
#pragma once

#include <filesystem>
#include <string>

namespace wmtp {

/// 40 or 64 hexadecimal digits. "" outside a repository, before its first commit, where refs are not kept in files
/// (reftable), and, as with git, where the repository belongs to another user. Reads small regular files alone.
std::string git_commit(const std::filesystem::path& folder);

}  // namespace wmtp
