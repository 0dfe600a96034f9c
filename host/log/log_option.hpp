// How messages name a run log: in a command, and where it is absent.
#pragma once

#include <filesystem>
#include <string>

#include "base/error.hpp"

namespace wmtp {

/// " --db FILE", to be appended to a command; "" if it reads this log without it, as WMTP_DB or as the default.
std::string log_option(const std::filesystem::path& database);

/// Error(usage): there is no log at `database`.
Error absent_log(const std::filesystem::path& database);

}  // namespace wmtp
