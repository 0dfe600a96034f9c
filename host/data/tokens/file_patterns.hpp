// Patterns of files: `*` and `?` match within a name, `**` across folders. As in a shell, wildcards match no hidden
// names (those that begin with a dot), and no backups of editors (name~, #name#), unless the pattern's name does so
// itself. A name that exists as it is written is no pattern: a folder named `p?` contains only its own files.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// Regular files that match any of the absolute `patterns`, except those that match `exclude` or are in a folder that
/// matches it; sorted by path. A file is listed once and a folder read once, however many links and patterns lead
/// there, under its own name if that is found; what `exclude` names is excluded under all its names. In a repository of
/// the Hugging Face cache, wildcards match the names under `snapshots`, and neither `blobs` nor `refs`. Error(data) if
/// one of `patterns` matches nothing, or a link to nothing, a pipe or a device, or only some files of a set like
/// `train-00000-of-00002.txt`, or a download that is not finished, or several revisions in that cache.
///
/// `idle`, if not null, gets those of `exclude` that match nothing which `patterns` match.
std::vector<std::filesystem::path> list_files(const std::vector<std::string>& patterns,
                                              const std::vector<std::string>& exclude,
                                              std::vector<std::string>* idle = nullptr);

/// Those of `files` that are none of `others`, under any name.
std::vector<std::filesystem::path> without(const std::vector<std::filesystem::path>& files,
                                           const std::vector<std::filesystem::path>& others);

}  // namespace wmtp
