// Recorder: takes what a run reports and gives it to the log and the screen. Exists on every rank; only rank 0's does
// anything, so the way of a run reads the same for all.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "core/runlog/run_log.hpp"
#include "core/tokenizer/tokenizer.hpp"
#include "engine/checkpoint/state_saver.hpp"
#include "engine/run/assembly.hpp"
#include "engine/run/progress.hpp"
#include "engine/run/session.hpp"
#include "io/run_lock.hpp"

namespace wmtp {

class Recorder {
 public:
  /// [rank 0 opens the log: Error(storage) when it cannot be used]
  Recorder(Session& session, const Experiment& experiment, const Identity& identity, int64_t parent_run);
  ~Recorder();

  /// The run's folder. [all ranks, collective]
  const std::filesystem::path& run_folder() const { return run_folder_; }
  int64_t run_id() const { return log_ ? log_->run_id() : 0; }
  void start_training(int64_t first_step, int64_t num_steps);
  void say(const std::string& text);

  void step(const StepReport& report);
  void validation(int64_t step, const std::map<std::string, double>& metrics, double seconds);
  /// What became of a save that was not the last.
  void saved(const SaveOutcome& outcome);
  void event(const std::string& level, const std::string& kind, int64_t step, const std::string& message);
  /// `tokenizer`: of the run's data; null: the ids stand for themselves.
  void samples(int64_t step, const std::vector<TokenSample>& samples, const Tokenizer* tokenizer);
  /// Of every rank since the run began. Memory: the moment of each phase at which most was live, unless it was told
  /// before; the highest of each category by itself, resident memory; and what is live now. Time: time/PHASE, mean over
  /// ranks. [all ranks, collective]
  void resources(int64_t step);
  /// Writes the last column of the run's row, and the summary.
  void end(ExitStatus status);

 private:
  Session& session_;
  const Experiment& experiment_;
  std::unique_ptr<RunLog> log_;
  std::unique_ptr<RunLock> lock_;
  std::unique_ptr<Progress> progress_;
  std::filesystem::path run_folder_;
  std::map<std::pair<int, std::string>, int64_t> told_;  ///< most live bytes, by rank and phase
};

}  // namespace wmtp
