// Creates the folder of a new plugin from this version's templates: sources, build file and README. It builds and
// passes `plugins check` without changes.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// Creates `folder` completely or not at all; `kind`: "pipeline" or "adapter". Returns its files. The build first looks
/// for the sdk in this program's prefix. Error(usage) for an invalid name or an existing folder; Error(storage) when it
/// cannot be written.
std::vector<std::filesystem::path> make_plugin_folder(const std::string& kind, const std::string& name,
                                                      const std::filesystem::path& folder);

}  // namespace wmtp
