// Folders of prepared data: complete or absent. prepared.json lists the size of every file and is written last; several
// processes may prepare the same folder at once, and the first one to publish wins.
#pragma once

#include <filesystem>
#include <optional>

#include "base/json.hpp"
#include "io/durable_file.hpp"

namespace wmtp {

/// prepared.json of a folder whose files have the listed sizes, and its files of ids as many as were written; otherwise
/// nullopt.
std::optional<Json> read_prepared(const std::filesystem::path& folder);

/// Adds the sizes of all files to `prepared`, writes it and publishes the draft, unless another process has published a
/// complete folder. Replaces a damaged one. Error(storage), also if a file of ids is shorter than what was written.
void publish_prepared(FolderDraft& draft, Json prepared);

}  // namespace wmtp
