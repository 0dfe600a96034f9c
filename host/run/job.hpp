// What `wmtp-host run` was asked for, and the engine's two doors. Plain values; knows no LibTorch.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "dist/rank_environment.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

struct Job {
  Experiment experiment;
  std::filesystem::path database;   ///< --db, WMTP_DB, or log.database
  bool resume = false;
  bool quiet = false;
  bool color = false;
  std::vector<std::filesystem::path> plugin_folders;  ///< --plugin-dir
};

/// `run` on one rank: stages that the log lacks, then the experiment. Loads libwmtp_engine.so.
/// Returns the process's exit code; says what went wrong on stderr. Never throws.
int run_rank(const Job& job, const RankEnvironment& environment);

/// The probe child's way to a plugin's JSON description (see plugin/probe.hpp). Throws Error(plugin).
std::string describe_with_engine(const std::string& plugin_file);

}  // namespace wmtp
