// `runs note`, `tag`, `archive` and `rename`: what a user adds to runs of the log, also on the page.
#pragma once

#include <filesystem>
#include <string>

namespace wmtp {

/// What the page sends: {"run": 3, "name": …, "tags": "paper best", "note": …, "archived": false}, all labels of one run.
/// Error(usage) if it is anything else, or a label is invalid; Error(storage).
void change_labels(const std::filesystem::path& database, const std::string& change);

}  // namespace wmtp
