// The arguments of `wmtp-host run`, as a value sent to every rank, and the job defined by them and the experiment's
// file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "experiment/load/source_texts.hpp"
#include "job/identity.hpp"
#include "job/stages.hpp"
#include "plugins/catalog.hpp"

namespace wmtp {

/// Path of a file into which rank 0 writes its run's id (decimal) as soon as the row exists, so that the launcher can
/// close a row that rank 0 left open (close_lost_run). Not set under a foreign launcher.
inline constexpr const char* run_id_file_variable = "WMTP_RUN_ID_FILE";

/// Why and how the launcher starts the ranks of a run again.
struct Restart {
  int64_t number = 0;         ///< 1: the first restart; 0: none
  std::string reason;         ///< "rank 1 was killed by SIGKILL"
  int64_t lost_since_ns = 0;  ///< when the last checkpoint was saved, or else the run was started; since 1970
};

struct JobRequest {
  std::string command;                 ///< as typed, for the run's row in the log
  std::string file;                    ///< the experiment file
  std::vector<std::string> overrides;  ///< --set
  std::string name;                    ///< --name; "": the name in the file
  std::string name_suffix;             ///< for a member of a sweep, appended to the file's name
  int64_t nproc = 0;                   ///< --nproc; 0: not given
  Resume resume = Resume::no;
  int64_t max_restarts = 0;                           ///< --max-restarts, of each run
  std::vector<std::string> stage;                     ///< the stage to run (RunPlan::path); empty: the experiment
  Stages stages;                                      ///< stages that it needs, found or trained by the launcher
  ResumePoint from;                                   ///< found by the launcher
  Restart restart;                                    ///< of this attempt
  std::filesystem::path sources;                      ///< texts already read by the launcher (SourceTexts); "": none
  std::filesystem::path database;                     ///< --db; "": WMTP_DB, else log.database (in a Job: resolved)
  std::vector<std::filesystem::path> plugin_folders;  ///< --plugin-dir
  bool quiet = false, no_color = false;
};

struct Job : JobRequest {
  Experiment experiment;  ///< or the stage to run
};

/// JSON, for the processes that a launcher starts; Error(usage) if a path is not UTF-8. `job_request_from` throws
/// Error(bug).
std::string to_text(const JobRequest& request);
JobRequest job_request_from(const std::string& text);

/// The arguments of a rank's process.
inline std::vector<std::string> rank_arguments(const JobRequest& request) { return {"run", to_text(request)}; }

/// `given`, else WMTP_DB, else `otherwise`. Error(usage) if it is not UTF-8.
std::filesystem::path chosen_database(const std::filesystem::path& given, const std::filesystem::path& otherwise);

/// A request to load an experiment with the plugins of `catalog`, which must outlive the request, and the shapes of the
/// weights that it names.
LoadRequest load_request(const Catalog& catalog, std::filesystem::path file, std::vector<std::string> overrides);

/// Reads and checks the file with the request's overrides, and selects the stage. Errors as load_experiment.
Job make_job(const JobRequest& request, const Catalog& catalog, SourceTexts& texts);

/// --nproc, which also applies to every stage, or else the experiment's [parallel] processes.
inline int64_t num_processes(const Experiment& experiment, int64_t nproc) {
  return nproc > 0 ? nproc : experiment.parallel.processes;
}

/// Sets the experiment's number of processes to that of a foreign launcher, which the message names. Error(usage) if
/// the file or the request contradicts it. [after the experiment is checked]
void adopt_world_size(const JobRequest& request, int64_t world_size, const std::string& launcher,
                      Experiment& experiment);

}  // namespace wmtp
