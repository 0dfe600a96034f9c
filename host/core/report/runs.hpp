// `runs list` and `runs show`: what the log knows, for people and as JSON.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "core/report/table.hpp"
#include "core/runlog/log_reader.hpp"

namespace wmtp {

/// Which runs are listed, and in which order. What is empty asks for nothing.
struct RunSelection {
  std::vector<std::string> statuses{};  ///< one of these
  std::string name{};                   ///< a pattern with *, ? and [abc]
  std::string pipeline{};
  std::vector<std::string> where{};  ///< "pipeline.keep=0.6", all of them: numbers as numbers, else the same text
  std::string sort{};                ///< one of sort_keys(), smallest first, runs without it last; "": newest first
  bool reverse = false;
  int64_t limit = 0;  ///< 0: all
};

/// The columns of the list.
const std::vector<std::string>& sort_keys();

/// JSON and CSV carry the columns of v_runs by their names. Error(usage) for a condition that is none, and for a key
/// that no run of the log has.
void print_runs_list(std::ostream& out, const LogReader& log, TableFormat format, const RunSelection& selection = {});

/// Configuration, plugins, first/last/best metrics, curves, memory, checkpoints, evaluations, losses on texts, events
/// of one run. JSON is one object. Curves are those of `metrics`, or of the losses. Error(usage) for CSV, which has no
/// form for it, for a run that is not in the log, and for a metric that the run has not.
void print_run(std::ostream& out, const LogReader& log, int64_t run_id, TableFormat format,
               const std::vector<std::string>& metrics = {});

/// The resolved experiment, as it can be run again.
void print_experiment(std::ostream& out, const LogReader& log, int64_t run_id);

}  // namespace wmtp
