// RunLog: the only writer of the SQLite log. [rank 0 only]
//
// Start: opens (or creates, migrates) the database, probes it by writing, inserts the run's row; a failure here is
// Error(storage). From then on the log never stops or slows training: records go to a bounded queue, a writer thread
// commits them in one transaction per wake-up; when the database is locked, full or gone they wait in the queue, then
// spill to a text file beside the database, and the run is marked `log_incomplete` with one warning. A database that is
// deleted or replaced is noticed at the next commit: its rows and those to come go to a new file beside it.
// A crash of this process loses at most the records of the last wake-up (WAL, synchronous NORMAL); the run's start and
// end are committed with synchronous FULL.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "core/experiment/experiment.hpp"

namespace wmtp {

/// What is known at the first moment.
struct RunStart {
  std::string name, pipeline, adapter, experiment_toml, resolved_toml, config_hash;
  int64_t seed = 0;
  int64_t world_size = 1;
  std::string strategy, precision, device, git_commit, host, version;
  int64_t parent_run = 0;  ///< 0: none
  std::map<std::string, OptionValue> params;
  struct Plugin {
    std::string kind, name, version, sha256, path;
  };
  std::vector<Plugin> plugins;
};

struct MemoryRecord {
  int64_t rank = 0, step = 0;
  std::string phase, category;
  int64_t bytes = 0;
};

/// What one head says of one token; see db/001_first.sql.
struct SampleRecord {
  int64_t sequence = 0, position = 0, head = 1, token_id = 0;
  std::string text;
  std::optional<double> weight, loss, reference_loss;
};

class RecordSink;
/// Makes what is given a run's records beside the database, by the run's number; nullptr: nothing.
using SinkMaker = std::function<std::unique_ptr<RecordSink>(int64_t run_id)>;

class RunLog {
 public:
  /// Inserts the run's row with status 'running' and starts the heartbeat (every 10 s, by the writer thread).
  RunLog(const std::filesystem::path& database, const RunStart& start, const SinkMaker& make_sink = {});
  /// A log that was not ended is closed as failed with exit 70.
  ~RunLog();

  int64_t run_id() const;
  /// `<the database's folder>/<id>-<name>/`, created.
  std::filesystem::path run_folder() const;

  // All of these only queue. NaN and infinities keep their kind.
  void metrics(int64_t step, const std::map<std::string, double>& values);
  void memory(const std::vector<MemoryRecord>& records);
  void samples(int64_t step, std::vector<SampleRecord> records);
  void checkpoint(int64_t step, const std::filesystem::path& path, int64_t bytes, const std::string& state);
  void event(int64_t rank, const std::string& level, const std::string& kind, int64_t step, const std::string& message);

  /// Drains the queue (bounded wait), writes status, exit_code, ended_at. finished with 0, interrupted with 75, else
  /// failed.
  void end(ExitStatus status);
  /// Where the rows are: another file than at the start, where that was deleted or replaced.
  std::filesystem::path database() const;
  /// Whether anything could not be written.
  bool incomplete() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Closes the row of a run whose rank 0 died; nothing when it is closed already. [launcher]
void close_lost_run(const std::filesystem::path& database, int64_t run_id, ExitStatus status,
                    const std::string& message);

}  // namespace wmtp
