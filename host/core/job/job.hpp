// What `wmtp-host run` was asked for, and the engine's doors. Plain values; knows no LibTorch.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"
#include "core/rendezvous/rank_environment.hpp"

namespace wmtp {

/// A stage that has been trained: its experiment's hash, and the model/ of the run that is used.
struct Stage {
  std::string config_hash;
  std::filesystem::path model;
};
/// Those of one experiment, by the table that names each: "model", "reference", "value".
using Stages = std::map<std::string, Stage>;

struct Job {
  Experiment experiment;
  Stages stages;                   ///< found or run by our own launcher; empty where the ranks look for themselves
  std::filesystem::path database;  ///< --db, WMTP_DB, or log.database
  bool resume = false;
  bool quiet = false;
  bool color = false;
  std::vector<std::filesystem::path> plugin_folders;  ///< --plugin-dir
};

/// Names a file that the launcher made: rank 0 writes its run's id into it, in decimal, as soon as the row exists, so
/// that the launcher can close a row that rank 0 left open (close_lost_run). Not set under a foreign launcher.
inline constexpr const char* run_id_file_variable = "WMTP_RUN_ID_FILE";

// The doors load libwmtp_engine.so on first use, for the life of the process.

/// `run` on one rank. Alone with own_launcher the stages are there already; under a foreign launcher the ranks run
/// those that the log lacks, one after another. Returns the process's exit code; says what went wrong on stderr. Never
/// throws.
int run_rank(const Job& job, const RankEnvironment& environment);

/// `data prepare`: tokenizer and token files of the experiment, in this process alone. As run_rank.
int run_prepare(const Job& job);

/// JSON of about_engine.hpp. Throws Error(bug) when the engine is missing or cannot be loaded.
std::string about_engine_of_this_build();

/// The probe child's way to a plugin's JSON description (see core/plugins/probe.hpp). Throws Error(plugin).
std::string describe_with_engine(const std::string& plugin_file);
/// Its way to a plugin's JSON answer to its options. Throws Error(plugin).
std::string check_with_engine(const std::string& settings);
/// Its way to the layouts of models, with their adapters. Throws Error(plugin).
std::string layouts_with_engine(const std::string& questions);
/// Its way to a trial of a plugin. Throws Error(plugin).
std::string try_with_engine(const std::string& question);

}  // namespace wmtp
