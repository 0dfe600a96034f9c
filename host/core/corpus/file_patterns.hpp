// Patterns of files: `*` and `?` match within a name, `**` across folders. As in a shell, wildcards match no hidden names
// (those that begin with a dot), and no backups of editors (those that end with ~), unless the pattern's name does so
// itself. A name that exists as it is written is no pattern: a folder named `p?` contains only its own files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// Regular files that match any of the absolute `patterns`, except those that match `exclude` or are in a folder that
/// matches it; sorted by path, without duplicates. A folder that is found under several names, of itself and of links to
/// it, is read once, under its own name if that is found. Error(data) with the pattern if one of `patterns` matches
/// nothing, or a pipe or a device, or only some files of a set like `train-00000-of-00002.txt`.
std::vector<std::filesystem::path> list_files(const std::vector<std::string>& patterns,
                                              const std::vector<std::string>& exclude);

}  // namespace wmtp
