// Words of a command line that select runs: an id, a name, the name of a sweep, or the file of an experiment or sweep.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cli/command.hpp"
#include "log/log_reader.hpp"

namespace wmtp {

/// Help of RUN arguments that also take sweeps.
inline constexpr const char* selected_runs_argument =
    "run ids, names (the newest run of each), sweeps, or files of experiments";

/// What a file of experiments names.
struct RunsOfFile {
  std::vector<std::string> names;  ///< each once; members that differ in their seed share one
  bool is_sweep = false;
};

/// Error(usage) and others as of loading the file.
RunsOfFile runs_of_file(const std::string& file, const GlobalOptions& globals);

/// The runs that `words` select, each once: the newest of a name, and of a sweep the newest of each member. A member of
/// a sweep's file that was never started is a warning. Error(usage) for a word that selects no run.
std::vector<int64_t> selected_runs(const LogReader& log, const std::vector<std::string>& words,
                                   const GlobalOptions& globals);

}  // namespace wmtp
