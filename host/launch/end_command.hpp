// `run --on-end PROGRAM`: tells a program of the user's that a run has ended, for notifications. [launcher process]
//
// The program is started without a shell and without arguments, and gets the run in its environment: WMTP_RUN_ID ("" if
// the run ended before it had a row), WMTP_RUN_NAME, WMTP_RUN_STATUS (finished, interrupted, failed),
// WMTP_RUN_EXIT_CODE, WMTP_RUN_REASON ("" or why it failed), WMTP_RUN_LOSS (the last validation loss, else training
// loss), WMTP_RUN_NOT_FINITE (number of logged training losses and gradient norms that are not finite), and WMTP_DB. It
// is killed after a minute. Its failure is a warning and changes nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/error.hpp"

namespace wmtp {

struct RunOutcome {
  int64_t id = 0;  ///< 0: none
  std::string name;
  ExitStatus status = ExitStatus::done;
  std::string reason;
};

/// The absolute path. Error(usage) unless it is an executable file.
std::filesystem::path checked_end_command(const std::string& program);

void run_end_command(const std::filesystem::path& program, const std::filesystem::path& database,
                     const RunOutcome& run);

}  // namespace wmtp
