// One job: an experiment and how it is to be run. Plain values.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"

namespace wmtp {

/// A trained stage: its experiment's hash, and the model/ of the run that is used.
struct Stage {
  std::string config_hash;
  std::filesystem::path model;
};
/// The stages of one experiment, by the table that names each: "model", "reference", "value".
using Stages = std::map<std::string, Stage>;

struct Job {
  Experiment experiment;
  Stages stages;                   ///< found or trained by our own launcher; empty where the ranks look for themselves
  std::filesystem::path database;  ///< --db, WMTP_DB, or log.database
  bool resume = false;
  bool quiet = false;
  bool color = false;
  std::vector<std::filesystem::path> plugin_folders;  ///< --plugin-dir
};

/// Names a file that the launcher made: rank 0 writes its run's id into it, in decimal, as soon as the row exists, so
/// that the launcher can close a row that rank 0 left open (close_lost_run). Not set under a foreign launcher.
inline constexpr const char* run_id_file_variable = "WMTP_RUN_ID_FILE";

}  // namespace wmtp
