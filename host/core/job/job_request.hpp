// What `wmtp-host run` was asked for, as a value that is handed to every rank, and the job that follows from it and the
// experiment's file.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "core/config/source_texts.hpp"
#include "core/job/job.hpp"
#include "core/plugins/catalog.hpp"

namespace wmtp {

struct JobRequest {
  std::string file;                    ///< the experiment's
  std::vector<std::string> overrides;  ///< --set
  std::string name;                    ///< --name; "": the file says it
  std::string name_suffix;             ///< of a member of a sweep, appended to the file's name
  int64_t nproc = 0;                   ///< --nproc; 0: not given
  bool resume = false;
  Stages stages;                                      ///< trained by the launcher
  std::vector<std::string> held_out;                  ///< of a stage: files that its experiment validates with
  bool hold_out_problems = false;                     ///< of a stage: its experiment holds out problems
  double hold_out_share = 0;                          ///< of a stage: its experiment holds out this share of each text
  std::filesystem::path sources;                      ///< texts that another process has read (SourceTexts); "": none
  std::filesystem::path database;                     ///< --db; "": WMTP_DB, else log.database
  std::vector<std::filesystem::path> plugin_folders;  ///< --plugin-dir
  bool quiet = false, no_color = false;
};

/// As JSON, from a launcher to the processes that it starts. `job_request_from` throws Error(bug).
std::string to_text(const JobRequest& request);
JobRequest job_request_from(const std::string& text);

/// `given`, else WMTP_DB, else `otherwise`.
std::filesystem::path chosen_database(const std::filesystem::path& given, const std::filesystem::path& otherwise);

/// Reads and checks the file with the request's overrides. Errors as load_experiment.
Job make_job(const JobRequest& request, const Catalog& catalog, SourceTexts& texts);

/// Sets the experiment's number of processes to that of a foreign launcher. Error(usage) when the file or the request
/// says another. [after the experiment is checked]
void adopt_world_size(const JobRequest& request, int64_t world_size, Experiment& experiment);

}  // namespace wmtp
