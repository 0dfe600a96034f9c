// What the files of this room share to speak of failures.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.hpp"

namespace wmtp {

/// "cannot ACTION PATH: cause; what to do", from an errno.
Error storage_error(const std::string& action, const std::filesystem::path& path, int code);

/// A name out of a file that is not trusted, in quotes, fit for a terminal: control characters escaped, cut at 120.
std::string printable(std::string_view name);

}  // namespace wmtp
