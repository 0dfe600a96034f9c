#include "launch/end_command.hpp"

#include <unistd.h>

#include <chrono>

#include "base/log.hpp"
#include "base/text.hpp"
#include "log/log_reader.hpp"
#include "log/run_log.hpp"
#include "process/child_process.hpp"

namespace wmtp {
namespace {

constexpr std::chrono::minutes limit{1};

/// "" if the log cannot be read, or lacks rows that wait beside it (log/spool.hpp): the message matters more.
std::string query_text(const std::filesystem::path& database, const std::string& sql, int64_t run_id) {
  try {
    const LogReader log(database);
    const char* is_complete = "SELECT 1 FROM runs WHERE id = ?1 AND ended_at IS NOT NULL AND NOT log_incomplete";
    if (log.query(is_complete, {run_id}, 1).rows.empty()) return "";
    const Table table = log.query(sql, {run_id}, 1);
    const Json cell = table.rows.empty() ? Json() : table.rows[0][0];
    return cell.is_null() ? "" : cell.is_string() ? cell.get<std::string>() : cell.dump();
  } catch (const std::exception&) {
    return "";
  }
}

}  // namespace

std::filesystem::path checked_end_command(const std::string& program) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(program, ignored) || ::access(program.c_str(), X_OK) != 0)
    throw Error(ExitStatus::usage,
                "found --on-end " + printable(program) +
                    ", wanted the path of an executable file; it gets no arguments, so put a command "
                    "with arguments into a script");
  return std::filesystem::absolute(program);
}

void run_end_command(const std::filesystem::path& program, const std::filesystem::path& database,
                     const RunOutcome& run) {
  auto variables = own_environment();
  variables["WMTP_RUN_ID"] = run.id > 0 ? std::to_string(run.id) : "";
  variables["WMTP_RUN_NAME"] = run.name;
  variables["WMTP_RUN_STATUS"] = status_name(run.status);
  variables["WMTP_RUN_EXIT_CODE"] = std::to_string(int(run.status));
  variables["WMTP_RUN_REASON"] = run.reason;
  variables["WMTP_RUN_LOSS"] =
      query_text(database, "SELECT coalesce(valid_loss, train_loss) FROM v_runs WHERE id = ?1", run.id);
  variables["WMTP_RUN_NOT_FINITE"] =
      query_text(database,
                 "SELECT count(*) FROM metrics WHERE run_id = ?1 AND name IN ('train/loss', 'train/grad_norm') "
                 "AND kind IS NOT NULL",
                 run.id);
  variables["WMTP_DB"] = std::filesystem::absolute(database).string();
  ChildRequest request;
  request.program = program;
  request.environment = environment_entries(variables);
  const std::string which = "--on-end " + program.string();
  try {
    const ChildResult result = run_child(request, limit);
    if (result.timed_out)
      log_warning(which + " was killed after a minute");
    else if (result.signal != 0)
      log_warning(which + " was killed by " + signal_name(result.signal));
    else if (result.exit_code != 0)
      log_warning(which + " ended with exit code " + std::to_string(result.exit_code) + ": " +
                  printable(last_line(result.messages)));
  } catch (const Error& error) {
    log_warning(which + ": " + error.what());
  }
}

}  // namespace wmtp
