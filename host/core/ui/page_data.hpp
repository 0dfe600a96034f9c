// What the page asks: runs, curves, what is new, and what stands behind a run, each as one JSON value.
//
// Every answer reads the log anew in short read transactions. A number that is not finite is the text "nan", "inf" or
// "-inf". A log that is not there yet, or was put in another's place, is opened when it comes.
//
// Live by cursor: `epoch` names what a cursor belongs to (this program, this file, the runs that were ever deleted:
// SQLite gives a deleted row's number out again), `version` the state of the rows of runs, `cursor` and `event_cursor`
// the last rowid that was seen. refresh() gives what came after them, or {"reset": true} where they say nothing.
#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/runlog/log_reader.hpp"
#include "core/ui/series_store.hpp"
#include "core/ui/smoothing.hpp"

namespace wmtp {

using PageJson = nlohmann::ordered_json;

struct CurvesRequest {
  std::vector<int64_t> runs;
  std::vector<std::string> names;
  double smoothing = 0;
  bool by_time = false;  ///< x is seconds since the run's start, not the step
  std::optional<double> from, to;
  size_t cells = 800;
};

struct RefreshRequest {
  std::string epoch;
  int64_t version = 0, cursor = 0, event_cursor = 0;
  CurvesRequest shown;  ///< the curves that the page has; only its runs, names and smoothing count
};

/// [any thread]
class PageData {
 public:
  /// Error(storage) as of LogReader.
  explicit PageData(std::filesystem::path database);
  ~PageData();

  /// All runs, newest first, by the columns of v_runs; the names of metrics; the cursors.
  PageJson runs();
  /// For each run and name that has values: `raw` and `smooth` with arrays step, seconds, value; smooth where smoothing
  /// is not 0.
  PageJson curves(const CurvesRequest& request);
  PageJson refresh(const RefreshRequest& request);
  /// Of one run all keys, of several those that differ.
  PageJson params(const std::vector<int64_t>& runs);
  PageJson memory(int64_t run);
  PageJson events(const std::vector<int64_t>& runs);
  /// Steps, sequences and heads of the run's samples.
  PageJson sampled(int64_t run);
  /// The tokens of one sequence at one step, as columns.
  PageJson tokens(int64_t run, int64_t step, int64_t sequence);

 private:
  struct KnownRun {
    std::string state;  ///< what of it changes without new metrics
    PageJson row;
    int64_t version = 0;
  };
  void open_if_changed();
  void read_runs();
  PageJson cursors() const;
  PageJson metric_names() const;

  std::mutex mutex_;
  std::filesystem::path path_;
  std::string file_;  ///< device and inode; "" when there is none
  std::unique_ptr<LogReader> log_;
  std::unique_ptr<SeriesStore> series_;
  std::map<int64_t, KnownRun> known_;
  std::string epoch_;
  int64_t version_ = 0, opened_ = 0;
};

}  // namespace wmtp
