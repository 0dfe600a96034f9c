// Creates the folder of a new plugin from this version's templates: sources, build file and README. It builds and
// passes `plugins check` unchanged.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiment/plugin_description.hpp"

namespace wmtp {

/// Creates `folder` atomically. Returns its files. The build first looks for the sdk in this program's prefix.
/// Error(usage) for an invalid name or an existing folder; Error(storage) if it cannot be written.
std::vector<std::filesystem::path> make_plugin_folder(PluginKind kind, const std::string& name,
                                                      const std::filesystem::path& folder);

}  // namespace wmtp
