// Creates the folder of a new plugin from this version's templates: sources, build file and README. It builds and
// passes `plugins check` unchanged.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// Creates `folder` atomically; `kind`: "pipeline" or "adapter". Returns its files. The build first looks for the sdk
/// in this program's prefix. Error(usage) for an invalid name or an existing folder; Error(storage) if it cannot be
/// written.
std::vector<std::filesystem::path> make_plugin_folder(const std::string& kind, const std::string& name,
                                                      const std::filesystem::path& folder);

}  // namespace wmtp
