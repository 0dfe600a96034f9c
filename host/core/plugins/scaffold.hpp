// A new plugin's folder: sources, build file and a page, from the templates of this version; it builds and passes its
// own test (`plugins check`) as it is.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace wmtp {

/// Makes `folder`, whole or not at all; `kind`: "pipeline" or "adapter". Gives its files. The build looks for the sdk
/// beside this program first. Error(usage) when the name is no plugin's name or the folder is there already;
/// Error(storage) when it cannot be written.
std::vector<std::filesystem::path> make_plugin_folder(const std::string& kind, const std::string& name,
                                                      const std::filesystem::path& folder);

}  // namespace wmtp
