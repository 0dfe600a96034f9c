// The page's data: runs, curves, updates and details of a run, each as one JSON value.
//
// Every answer reads the log in short read transactions. A number that is not finite becomes the text "nan", "inf" or
// "-inf". A log that does not exist yet or was replaced is opened at the next request.
//
// Updates use cursors: `epoch` identifies what a cursor refers to (this program, this file, and the number of deleted
// runs, because SQLite reuses the rowids of deleted rows), `version` the state of the runs' rows, `cursor` and
// `event_cursor` the last rowids seen. refresh() returns everything after them, or {"reset": true} if they are invalid.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "log/log_reader.hpp"
#include "ui/series_store.hpp"
#include "ui/smoothing.hpp"

namespace wmtp {
using SharedText = std::shared_ptr<const std::string>;

/// Nine significant digits, the precision of fp32; "nan", "inf" or "-inf" if not finite.
OrderedJson number_json(double value);

/// What x is: the step, seconds of training, or tokens trained.
enum class Axis { step, time, tokens };

struct CurvesRequest {
  std::vector<int64_t> runs;
  std::vector<std::string> names;
  double smoothing = 0;
  Axis axis = Axis::step;
  std::optional<double> from, to;
  size_t cells = 800;
};

struct RefreshRequest {
  std::string epoch;
  int64_t version = 0, cursor = 0, event_cursor = 0;
  CurvesRequest shown;  ///< the page's curves; only runs, names and smoothing are used
};

/// [any thread]
class PageData {
 public:
  /// Reads all runs, so that the first answer does not have to. Error(storage) as LogReader.
  explicit PageData(std::filesystem::path database);

  /// All runs, newest first, with the columns of v_runs; names of metrics; cursors. The parts follow one another; those
  /// of runs are shared by all answers, because a log may have a hundred thousand.
  std::vector<SharedText> runs_text();
  /// The same of these runs.
  OrderedJson runs(const std::vector<int64_t>& only);
  /// For each run and name that has values: `raw`, and `smooth` unless smoothing is 0; arrays step, seconds, tokens
  /// (null if unknown), value; for a resumed run `segments`, with the first step of each later one; `last_step`,
  /// `every`, the usual number of steps between points, and `can_be_smoothed`. Curves of a name have points at common
  /// steps.
  OrderedJson curves(const CurvesRequest& request);
  OrderedJson refresh(const RefreshRequest& request);
  /// configs_text() of all runs. Shared by all answers until there is another run.
  SharedText configs();
  /// One run: its rows in the log, experiment, metrics, segments, checkpoints, texts after log.prompts (of the newest
  /// steps), evaluations with their answers, losses on texts.
  OrderedJson run(int64_t run);
  /// All keys of one run, or the differing keys of several.
  OrderedJson params(const std::vector<int64_t>& runs);
  OrderedJson memory(int64_t run);
  /// At most 2,000 per run, the newest ones, in ascending order.
  OrderedJson events(const std::vector<int64_t>& runs);
  /// What `wmtp-host study` last found, newest first, at most 100: study, made (seconds since 1970), report (JSON as
  /// text, which the page parses: a log may contain anything), curves and differences (SVG).
  OrderedJson studies();
  /// Steps, sequences and heads of the run's samples.
  OrderedJson sampled(int64_t run);
  /// The tokens of one sequence at one step, as columns.
  OrderedJson tokens(int64_t run, int64_t step, int64_t sequence);

 private:
  struct KnownRun {
    std::string state;  ///< the part of the data that can change without new metrics
    SharedText row;     ///< JSON; null until it is read
    int64_t version = 0;
  };
  /// Locks, and opens the current file if necessary.
  std::unique_lock<std::mutex> locked();
  void open_if_changed();
  void read_runs();
  OrderedJson cursors() const;
  OrderedJson log_and_cursors() const;
  OrderedJson metric_names() const;
  /// Events with a rowid above `row`.
  OrderedJson events_after(int64_t row, const std::vector<int64_t>& runs) const;

  std::mutex mutex_;
  std::filesystem::path path_;
  std::string file_;  ///< device and inode; "" if it does not exist
  std::unique_ptr<LogReader> log_;
  std::unique_ptr<SeriesStore> series_;
  std::map<int64_t, KnownRun> known_;
  std::string epoch_;
  int64_t version_ = 0, opened_ = 0;
  std::pair<std::string, int64_t> configs_version_;  ///< the epoch and newest run of `configs_`
  SharedText configs_;
};

}  // namespace wmtp
