// Errors of system calls on files.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/error.hpp"
#include "base/printable.hpp"

namespace wmtp {

/// "cannot ACTION PATH: cause; what to do", from an errno.
Error storage_error(const std::string& action, const std::filesystem::path& path, int code);

}  // namespace wmtp
