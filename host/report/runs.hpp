// `runs list` and `runs show`: runs of the log as text and as JSON.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "log/log_reader.hpp"
#include "report/table.hpp"

namespace wmtp {

/// The list as text has at most this many runs, unless a limit is given.
inline constexpr int64_t listed_runs = 100;

/// Selects and orders the listed runs. Empty members select all runs.
struct RunSelection {
  std::vector<std::string> statuses{};  ///< any of these
  std::string name{};                   ///< pattern with *, ? and [abc]
  std::string pipeline{};
  std::vector<std::string> tags{};   ///< all must be set
  std::vector<std::string> where{};  ///< "pipeline.keep=0.6", all must hold; numeric values are compared as numbers
  std::string sort{};  ///< one of sort_keys(), smallest first, runs without a value last; "": newest first
  bool reverse = false;
  int64_t limit = 0;      ///< 0: all, but as text listed_runs
  bool archived = false;  ///< also archived runs
  bool segments = false;  ///< also runs that a later run resumed, whose steps that run includes
};

/// The columns of the list.
const std::vector<std::string>& sort_keys();

/// The runs given by `words`, each once: ids, or names (the newest run of each). No sweeps, because commands that
/// change or delete runs use it. Error(usage) for a run that is not in the log.
std::vector<int64_t> distinct_runs(const LogReader& log, const std::vector<std::string>& words);

/// JSON and CSV have the columns of v_runs. Error(usage) for an invalid condition or a key that no run has.
void print_runs_list(std::ostream& out, const LogReader& log, TableFormat format, const RunSelection& selection = {});

/// Result, curves, first/last/best metrics, time by rank, memory, segments, checkpoints, evaluations, losses on texts,
/// events, plugins and options of one run; metrics, curves, checkpoints and events cover the runs that it resumed. The
/// text has the options that are not defaults. JSON is one object with all. Draws the curves of `metrics`, or by
/// default of the losses. Error(usage) for an unknown run, or a metric that the run lacks.
void print_run(std::ostream& out, const LogReader& log, int64_t run_id, bool as_json,
               const std::vector<std::string>& metrics = {});

/// Columns name, points, first, last, lowest, highest, last_step, not_finite: of each metric over all segments.
Table metrics_of_run(const LogReader& log, int64_t run_id);

/// The resolved experiment, which can be run. Error(usage) with the line if a path in it is not UTF-8, which TOML
/// cannot contain.
std::string runnable_experiment(const LogReader& log, int64_t run_id);
/// The same on `out`.
void print_experiment(std::ostream& out, const LogReader& log, int64_t run_id);

}  // namespace wmtp
