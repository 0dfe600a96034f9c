// How a printed command names a run log.
#pragma once

#include <filesystem>
#include <string>

namespace wmtp {

/// " --db FILE", to be appended to a command; "" if it reads this log without it, as WMTP_DB or as the default.
std::string log_option(const std::filesystem::path& database);

}  // namespace wmtp
