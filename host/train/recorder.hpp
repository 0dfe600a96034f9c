// Recorder: reports a run to the log and the screen. Rank 0 writes; the other ranks take part in the collectives, and
// create the run's folder on hosts that do not share a file system with rank 0.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "checkpoint/torch/state_saver.hpp"
#include "export/live_trackers.hpp"
#include "io/run_lock.hpp"
#include "job/time_left.hpp"
#include "log/run_log.hpp"
#include "tokenizer/tokenizer.hpp"
#include "train/run_identity.hpp"
#include "train/samples.hpp"
#include "train/session.hpp"
#include "train/trainer.hpp"

namespace wmtp {

class Recorder {
 public:
  /// [all ranks, collective] Rank 0 opens the log: Error(storage) if it cannot be used.
  Recorder(Session& session, const Experiment& experiment, const RunIdentity& identity, int64_t parent_run);
  ~Recorder();

  /// The run's folder, on every rank.
  const std::filesystem::path& run_folder() const { return run_folder_; }
  /// Notes how much work was lost before a restart, the first step of which is `step` + 1.
  void restarted(const Restart& restart, int64_t step);
  /// `sequences`: those of one step, over all ranks.
  void start_training(const TimeLeft::Plan& plan, int64_t sequences);
  /// Prints a line about the run.
  void info(const std::string& text);

  void step(const StepReport& report);
  void validation(int64_t step, const std::map<std::string, double>& metrics, double seconds);
  /// Whether a validation at this step is in the log of the run or of those that it resumed. [all ranks, collective]
  bool validated(int64_t step) const;
  /// As RunLog::flush. [rank 0; any thread]
  void flush_log(std::chrono::milliseconds longest) { log_->flush(longest); }
  void saved(const SaveOutcome& outcome);
  void event(const std::string& level, const std::string& kind, int64_t step, const std::string& message);
  /// `tokenizer`: of the run's data; if null, ids are shown as numbers.
  void samples(int64_t step, const std::vector<TokenSample>& samples, const Tokenizer* tokenizer);
  void generations(int64_t step, std::vector<Generation> texts);
  /// Memory and time of every rank since the run began. Memory: each phase's moment with the most live bytes, unless
  /// already logged; the peak of each category separately; resident memory; current live bytes. Time: time/PHASE, mean
  /// over ranks, and the seconds of each rank. [all ranks, collective]
  void resources(int64_t step);
  /// Completes the run's row and prints the summary. If that cannot be read, the run has ended as it has.
  void end(ExitStatus status);
  /// Logs the error and ends the run with it.
  void failed(const Error& error);

 private:
  class Progress;
  void begin();
  void print_end(ExitStatus status);
  void make_writer_folder();
  std::string summary_without_log(ExitStatus status) const;
  bool row_is_gone() const;
  void finish_trackers();

  Session& session_;
  const Experiment& experiment_;
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<RunLock> lock_;
  std::unique_ptr<LiveTrackers> trackers_;
  std::unique_ptr<Progress> progress_;
  std::filesystem::path run_folder_;
  // Always logged: the first, of this segment, tells where it begins (v_lineage), the last what the run came to.
  int64_t first_step_ = 1, last_step_ = 0;
  /// What the log has, or would have, of a loss.
  struct Loss {
    bool is_there = false;
    int64_t first_step = 0, last_step = 0;
    double first = 0, last = 0;
    void add(int64_t step, double value);
  };
  Loss training_, validation_;
  std::map<std::pair<int, std::string>, int64_t> logged_;  ///< peak of live bytes, by rank and phase
};

}  // namespace wmtp
