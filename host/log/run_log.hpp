// RunLog: the only writer of the SQLite log. [rank 0 only]
//
// At the start it opens (or creates, migrates) the database, tests it by a write and inserts the run's row; a failure
// is Error(storage). After that the log never stops or slows training: records go to a bounded queue, and a writer
// thread commits them in one transaction per wake-up. While the database is locked, full or gone, they wait in the
// queue, then spill to a text file in the same folder, and the run is marked `log_incomplete` with one warning. A
// deleted or replaced database is detected at the next commit; its rows and all new ones then go to a new file in the
// same folder. A crash of this process loses at most the records of the last wake-up (WAL, synchronous NORMAL). The
// run's start and end, and what was recorded before a flush, are on disk (synchronous FULL): each checkpoint waits for
// a flush, so that a resumed run leaves no gap.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "experiment/experiment.hpp"

namespace wmtp {

/// A run's status, by how it ended: "finished", "interrupted" or "failed".
const char* status_name(ExitStatus status);

/// The run's row at its start.
struct RunStart {
  std::string name, pipeline, adapter, experiment_toml, resolved_toml, config_hash;
  std::string command;  ///< "": unknown
  int64_t seed = 0;
  int64_t world_size = 1;
  std::string strategy, precision, device, git_commit, host, version;
  int64_t parent_run = 0;  ///< 0: none
  std::map<std::string, Value> params;
  struct Plugin {
    std::string kind, name, version, sha256, path;
  };
  std::vector<Plugin> plugins;
};

/// A setting's value as in run_params.value_text.
std::string param_text(const Value& value);

struct MemoryRecord {
  int64_t rank = 0, step = 0;
  std::string phase, category;
  int64_t bytes = 0;
};

/// Seconds of a rank's training thread in a phase since the run began.
struct RankTime {
  int64_t rank = 0, step = 0;
  std::string phase;
  double seconds = 0;
};

/// One head's result for one token; see db/001_first.sql.
struct SampleRecord {
  int64_t sequence = 0, position = 0, head = 1, token_id = 0;
  std::string text;
  std::optional<double> weight, loss, reference_loss;
};

/// How a head's gradient at the trunk's output aligns with head 1's; see db/011_sample_alignments.sql.
struct SampleAlignment {
  int64_t sequence = 0, position = 0, head = 1;
  double product = 0, cosine = 0;
};

/// A text that the model wrote after a prompt; see db/006_generations.sql. Any bytes; invalid UTF-8 is replaced.
struct Generation {
  int64_t number = 1;
  std::string prompt, text;
};

class LogWriter;
class RecordSink;
/// Creates an additional receiver of a run's records; may return null.
using SinkMaker = std::function<std::unique_ptr<RecordSink>(int64_t run_id)>;

class RunLog {
 public:
  /// Inserts the run's row with status 'running' and starts the heartbeat (every 10 s, by the writer thread). Adds rows
  /// of earlier runs that could not be written (spool.hpp).
  RunLog(const std::filesystem::path& database, const RunStart& start, const SinkMaker& make_sink = {});
  /// If end() was not called, closes the run as failed with exit code 70.
  ~RunLog();

  int64_t run_id() const { return run_id_; }
  /// Drawn for this run; identifies its row in any file.
  const std::string& run_key() const { return run_key_; }
  /// `<the database's folder>/<id>-<name>/`, created.
  const std::filesystem::path& run_folder() const { return folder_; }

  // These only append to the queue. NaN and infinities keep their kind.
  void metrics(int64_t step, const std::map<std::string, double>& values);
  void memory(const std::vector<MemoryRecord>& records);
  void rank_times(std::vector<RankTime> records);
  void samples(int64_t step, std::vector<SampleRecord> records);
  void sample_alignments(int64_t step, std::vector<SampleAlignment> records);
  void generations(int64_t step, std::vector<Generation> records);
  void checkpoint(int64_t step, const std::filesystem::path& path, int64_t bytes, const std::string& state);
  void event(int64_t rank, const std::string& level, const std::string& kind, int64_t step, const std::string& message);

  /// Waits up to `longest` until what was recorded so far is on disk. Returns at once if the file cannot be written for
  /// another reason than a lock. [any thread]
  void flush(std::chrono::milliseconds longest);
  /// Drains the queue (bounded wait) and writes status (0: finished, 75: interrupted, else failed), exit_code and
  /// ended_at.
  void end(ExitStatus status);
  /// The file that holds the rows: a new one if the first was deleted or replaced.
  std::filesystem::path database() const;
  /// Whether any row could not be written.
  bool incomplete() const;

 private:
  int64_t run_id_ = 0;
  std::string run_key_;
  std::filesystem::path folder_;
  bool ended_ = false;
  std::unique_ptr<LogWriter> writer_;
};

/// Closes the row of a run that rank 0 has not closed, or has closed as finished although another rank failed after it.
/// Returns whether it did. Leaves the row of another run alone, which has this number if the file was replaced;
/// `run_key` tells. [launcher]
bool close_lost_run(const std::filesystem::path& database, int64_t run_id, const std::string& run_key,
                    ExitStatus status, const std::string& message);

}  // namespace wmtp
