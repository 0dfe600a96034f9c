#include "log/log_option.hpp"

#include <system_error>

#include "base/environment.hpp"
#include "base/shell_text.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

std::string log_option(const std::filesystem::path& database) {
  const std::string chosen = environment_value("WMTP_DB");
  const std::filesystem::path read = chosen.empty() ? LogConfig().database : chosen;
  std::error_code absent;
  const bool is_read = database == read || std::filesystem::equivalent(database, read, absent);
  return is_read ? "" : " --db " + shell_path(database.string());
}

Error absent_log(const std::filesystem::path& database) {
  return {ExitStatus::usage, "no run log at " + std::filesystem::absolute(database).string() +
                                 "; change to the folder where the runs were started, or name their log with --db "
                                 "FILE or WMTP_DB"};
}

}  // namespace wmtp
