// The files that commands write where the user says so, even in place of others.
#pragma once

#include <filesystem>
#include <string>

namespace wmtp {

/// What to write for the value `target` of `option`: `target` itself if nothing is there, the regular file that is
/// there, or the one to which `target` links. Error(usage) for anything else, which must not be replaced: devices,
/// pipes, folders and links to nothing.
std::filesystem::path output_path(const std::string& option, const std::filesystem::path& target);

}  // namespace wmtp
