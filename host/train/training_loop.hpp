// TrainingLoop: the loop of a run over its optimizer steps, and what it does around them: resuming, validations,
// checkpoints, texts, the final model, and the rows of the log about them.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/adapter_identity.hpp"
#include "checkpoint/torch/state_saver.hpp"
#include "job/stages.hpp"
#include "train/assembly.hpp"
#include "train/recorder.hpp"
#include "train/run_identity.hpp"
#include "train/session.hpp"
#include "train/spin_throttle.hpp"

namespace wmtp {

/// The destructor finishes and logs a save in flight, however the run ends.
class TrainingLoop {
 public:
  TrainingLoop(Session& session, const Experiment& experiment, const RunIdentity& identity, Assembly& assembly,
               Recorder& recorder);
  ~TrainingLoop();
  TrainingLoop(const TrainingLoop&) = delete;

  /// Continues from a checkpoint. Error(data) if it belongs to another experiment. [all ranks, collective]
  void load(const ResumePoint& from);
  /// Trains until the last step or a request to stop, and publishes the model of a finished run. Returns how training
  /// ended. [all ranks, collective]
  ExitStatus run();
  /// Whether run() has trained a step. If not, the run that this one resumes has logged the step at which it is.
  bool has_trained() { return trainer().state().step > started_at_; }

 private:
  /// Once, before the first step.
  void start_training();
  /// Whether the model as it is now is to be validated first: at step 0, or where a signal stopped the resumed run
  /// after a step that was due for it. [all ranks, collective]
  bool begins_with_validation();
  /// Whether checkpoint.keep_best wants the model as it is now to be saved.
  bool validate();
  /// Failing to write a checkpoint does not end the run, unless it is the last one.
  void save(bool last);
  /// Writes model/, and adapter/ and model-ema/ where there are such. [all ranks, collective]
  void publish_model();
  /// Trains one step, and profiles that of log.profile_step. A profile that cannot be written does not end the run.
  StepReport step();
  /// The exit status that ends training, or nullopt.
  std::optional<ExitStatus> after_step(const StepReport& report);
  Trainer& trainer() { return assembly_.trainer(); }
  ExitStatus give_up(int64_t step);
  bool step_is_multiple_of(int64_t steps);
  /// Whether the last step completed a multiple of that many passes over the training data.
  bool step_completes(double epochs);
  /// For estimates; 0: only at the end.
  int64_t steps_between_validations();
  /// The model is always validated after the last step.
  bool validation_is_due();
  /// Whether the model now has the lowest validation loss of head 1, or of a critic, since step 0. Equal on all ranks.
  bool note_validation(const std::map<std::string, double>& metrics);
  /// [rank 0] Writes what makes a checkpoint a model.
  void warn_of_rebuilt_plugins(const Manifest& manifest, const std::filesystem::path& folder) const;
  std::function<void(const std::filesystem::path&)> description_writer() const;
  AdapterIdentity adapter_identity() const;
  void check_states();
  /// What `generate` would write after log.prompts with the model as it is now. Rank 0 reads a copy of the model from
  /// the run's folder while the others wait. A copy that cannot be written costs the texts, not the run.
  std::vector<Generation> continue_prompts();
  std::vector<Generation> continued(const std::vector<std::string>& prompts, const std::filesystem::path& model) const;
  SaveRequest save_request(const std::map<std::string, at::Tensor>& named_tensors);
  /// Rank 0's clock decides for all ranks.
  bool save_is_due() const;
  std::optional<SaveOutcome> finish_save();
  void refuse_lost(const std::optional<SaveOutcome>& outcome);
  void record(const std::optional<SaveOutcome>& outcome);

  Session& session_;
  const Experiment& experiment_;
  const RunIdentity& identity_;
  Assembly& assembly_;
  Recorder& recorder_;
  StateSaver saver_;
  std::function<void(const std::filesystem::path&)> describe_;
  SpinThrottle throttle_;
  int64_t started_at_ = 0;  ///< step
  int64_t saved_at_ = -1;
  std::chrono::steady_clock::time_point last_save_;
};

}  // namespace wmtp
