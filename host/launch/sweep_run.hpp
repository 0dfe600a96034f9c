// Runs several experiments as members of one sweep: the combinations of a [sweep], or several files.
#pragma once

#include <string>
#include <vector>

#include "experiment/load/sweep.hpp"
#include "job/job_request.hpp"
#include "job/reusable_run.hpp"
#include "log/log_reader.hpp"

namespace wmtp {

struct SweepRequest {
  struct File {
    std::string file;
    std::vector<SweepMember> members;  ///< empty without [sweep]
  };
  JobRequest job;  ///< common to all members, except file and overrides
  std::vector<File> files;
  std::filesystem::path end_command = {};  ///< of every member (end_command.hpp); "": none
  int64_t jobs = 1;                        ///< members that run at the same time
  /// Whether a run that a numeric guard stopped is a result, as a finished one is: it would diverge again.
  bool keeps_diverged = false;
};

struct SweepOutcome {
  int exit_code = 0;                      ///< of the first failed member, except those that diverged and are kept
  bool stop_requested = false;            ///< meanwhile, also if all members have finished
  Table members;                          ///< their losses
  std::vector<std::string> incomparable;  ///< losses that do not measure the same in all of the members
  std::vector<RunEnd> ends;               ///< of the same members
  std::vector<std::string> repeated;      ///< a line for each experiment that several members are
  Table means;  ///< over the seeds of each name, with standard errors; empty unless a name has several seeds
};

/// Loads and checks every member of every file, then runs those without a finished run in the log, each as a separate
/// process, after the stages that they need. A failing member does not end the others. After an interrupt no further
/// member is started. Error(usage) if the members that run at the same time need more cores than there are.
SweepOutcome run_sweep(const SweepRequest& request, SourceTexts& texts);

/// Loads and checks like run_sweep, and logs what run_sweep would do with each member.
void log_sweep(const SweepRequest& request, SourceTexts& texts);

}  // namespace wmtp
