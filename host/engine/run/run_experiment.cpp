#include "engine/run/run_experiment.hpp"

#include <chrono>
#include <cstdio>
#include <optional>

#include "base/counted.hpp"
#include "base/work_progress.hpp"
#include "core/corpus/step_count.hpp"
#include "core/job/identity.hpp"
#include "core/job/resume.hpp"
#include "core/job/stages.hpp"
#include "engine/checkpoint/adapter_files.hpp"
#include "engine/checkpoint/model_files.hpp"
#include "engine/checkpoint/state_saver.hpp"
#include "engine/checkpoint/training_state.hpp"
#include "engine/memory/caught_error.hpp"
#include "engine/memory/phase.hpp"
#include "engine/model/product_path.hpp"
#include "engine/run/assembly.hpp"
#include "engine/run/recorder.hpp"
#include "engine/run/spin_throttle.hpp"
#include "engine/train/stop_signal.hpp"

namespace wmtp {
namespace {

using nlohmann::json;

static_assert(LossScale::hysteresis == max_overflows_left, "a checkpoint is checked against the limits of a run");

/// The moves of one run that are made at more than one place of its way. Before it is gone, and so however the run
/// ends, a save in flight comes to its end and into the log.
class TrainingRun {
 public:
  TrainingRun(Session& session, const Experiment& experiment, const Identity& identity, Assembly& assembly,
              Recorder& recorder)
      : session_(session),
        experiment_(experiment),
        identity_(identity),
        assembly_(assembly),
        recorder_(recorder),
        saver_(session.peers(), assembly.trainer().optimizer(), recorder.run_folder(), experiment.checkpoint.keep) {
    if (assembly.model().adapter_unit()) base_ = fingerprint_text(assembly.model().base_fingerprint());
    trainer().on_save({[this] { return is_time_to_save(); }, [this] { saver_.settle(); }});
  }
  ~TrainingRun() {
    trainer().on_save({});
    end_save();
  }
  TrainingRun(const TrainingRun&) = delete;

  void load(const std::filesystem::path& folder) {
    const WorkProgress progress("reading the checkpoint");
    TrainerState& state = trainer().state();
    const auto [manifest, saved] = load_training_state(folder, trainer().optimizer(), state.pipeline);
    if (manifest.config_hash != identity_.config_hash)
      throw Error(ExitStatus::data, folder.string() + ": it is of another experiment: its hash is " +
                                        manifest.config_hash + ", this one's " + identity_.config_hash);
    check_fits(saved, folder);
    state.step = manifest.step;
    state.tokens = saved.tokens;
    // A run of an earlier version never had other ranks than those that saved.
    state.drawn = saved.drawn.value_or(state.step * sequences_per_step(experiment_.train, manifest.world_size));
    state.guard.restore(saved.guard_window, saved.skipped_in_a_row);
    if (state.loss_scale)
      state.loss_scale->restore(
          {saved.loss_scale->scale, saved.loss_scale->finite_steps, saved.loss_scale->overflows_left});
    if (manifest.world_size != session_.size()) assembly_.go_on_with_other_ranks(manifest.world_size);
    if (state.step > trainer().num_steps())
      throw Error(ExitStatus::data, folder.string() + ": it is of step " + std::to_string(state.step) +
                                        ", the run ends after " + counted(trainer().num_steps(), "step"));
  }

  void start_training() {
    recorder_.start_training(trainer().state().step + 1, trainer().num_steps());
    last_save_ = std::chrono::steady_clock::now();
  }

  void validate() {
    const int64_t step = trainer().state().step;
    const auto begun = std::chrono::steady_clock::now();
    const auto metrics = trainer().validate();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
    recorder_.validation(step, metrics, passed.count());
    recorder_.samples(step, trainer().sample(), assembly_.opened_tokenizer());
  }

  /// A checkpoint that cannot be written costs the checkpoint, not the run, unless it is the last.
  void save(bool last) {
    const Phase phase("checkpoint");
    std::optional<WorkProgress> progress;
    if (last) progress.emplace("writing the last checkpoint");
    end_save();
    const int64_t step = trainer().state().step;
    if (saved_at_ == step) return;
    saver_.begin(save_request(), last ? SaveMode::alone : SaveMode::concurrent);
    last_save_ = std::chrono::steady_clock::now();
    if (!last) return;
    const SaveOutcome outcome = *saver_.finish();
    if (outcome.rank_lost) throw session_.peers().explain("writing a checkpoint", outcome.failure);
    if (!outcome.failure.empty()) throw Error(ExitStatus::storage, outcome.failure);
    recorder_.saved(outcome);
  }

  void publish_model() {
    const Phase phase("checkpoint");
    const int64_t step = trainer().state().step;
    if (only_adapter_trains(assembly_.model()))
      save_adapter(recorder_.run_folder() / "adapter", step, identity_.config_hash,
                   {identity_.adapter.name, identity_.adapter.version, experiment_.adapter.options,
                    assembly_.started_from().string()},
                   assembly_.model(), session_.channels());
    save_model(model_in(recorder_.run_folder()), step, identity_.config_hash, assembly_.model(), &assembly_.adapter(),
               assembly_.tokenizer(), session_.channels());
  }

  /// What ends training, or nothing.
  std::optional<ExitStatus> after_step(const StepReport& report) {
    recorder_.step(report);
    note(saver_.take());
    if (report.memory_grew) recorder_.resources(report.step);
    if (report.overflowed) {
      recorder_.event("info", "overflow", report.step,
                      "step " + std::to_string(report.step) + " skipped: " + report.skipped);
    } else if (!report.skipped.empty()) {
      recorder_.event("warning", "skipped", report.step,
                      "step " + std::to_string(report.step) + " skipped: " + report.skipped + "; sequences " +
                          json(report.sequences).dump());
      if (trainer().state().guard.gave_up()) return give_up(report.step);
    }
    if (report.stop) {
      save(/*last=*/true);
      recorder_.event("info", "stopped", report.step, "stopped by a signal; go on with --resume");
      return ExitStatus::interrupted;
    }
    const auto due = [&](int64_t every) { return every > 0 && report.step % every == 0; };
    if (due(experiment_.validation.every_steps) && report.step != trainer().num_steps()) validate();
    if (due(experiment_.checkpoint.every_steps) || report.save) save(/*last=*/false);
    return std::nullopt;
  }

  ExitStatus give_up(int64_t step) {
    recorder_.event("error", "gave_up", step,
                    counted(trainer().state().guard.in_a_row(), "step") +
                        " in a row skipped "
                        "(guard.max_in_a_row); the last checkpoint is kept: lower optimizer.lr, or look at the data");
    return ExitStatus::guard;
  }

 private:
  Trainer& trainer() { return assembly_.trainer(); }

  /// What a sound state must share with this run. The experiment's hash is the same already.
  void check_fits(const SavedState& saved, const std::filesystem::path& folder) {
    const auto refuse = [&](const std::string& why) { throw Error(ExitStatus::data, folder.string() + ": " + why); };
    if (saved.base_fingerprint != base_)
      refuse("its adapter stands beside a model of fingerprint " + saved.base_fingerprint + ", this model's is " +
             base_ + "; the base weights have changed");
    if (saved.loss_scale.has_value() != trainer().state().loss_scale.has_value())
      refuse(std::string("state has ") + (saved.loss_scale ? "a" : "no") +
             " loss_scale; wanted one in an fp16 run alone");
    if (int64_t(saved.guard_window.size()) > experiment_.guard.window)
      refuse("state: guard_window holds " + counted(int64_t(saved.guard_window.size()), "loss", "es") +
             "; wanted at most " + std::to_string(experiment_.guard.window));
  }

  SaveRequest save_request() {
    const TrainerState& state = trainer().state();
    SaveRequest request{state.step, identity_.config_hash, {}, {}, &state.pipeline};
    for (const auto& [part, plugin] : identity_.plugins()) request.plugins[part + " " + plugin->name] = plugin->sha256;
    request.state = {{"tokens", state.tokens},
                     {"drawn", state.drawn},
                     {"guard_window", state.guard.window()},
                     {"skipped_in_a_row", state.guard.in_a_row()}};
    if (!base_.empty()) request.state["base_fingerprint"] = base_;
    if (state.loss_scale) {
      const LossScale::State& scale = state.loss_scale->state();
      request.state["loss_scale"] = {
          {"scale", scale.scale}, {"finite_steps", scale.finite_steps}, {"overflows_left", scale.overflows_left}};
    }
    return request;
  }

  /// Rank 0's clock is everybody's.
  bool is_time_to_save() const {
    const double every = experiment_.checkpoint.every_minutes;
    return every > 0 && session_.is_rank0() &&
           std::chrono::steady_clock::now() - last_save_ >= std::chrono::duration<double, std::ratio<60>>(every);
  }

  void end_save() { note(saver_.finish()); }

  void note(const std::optional<SaveOutcome>& outcome) {
    if (!outcome || outcome->rank_lost) return;  // of a lost rank the next collective tells
    if (outcome->failure.empty()) saved_at_ = outcome->step;
    recorder_.saved(*outcome);
  }

  Session& session_;
  const Experiment& experiment_;
  const Identity& identity_;
  Assembly& assembly_;
  Recorder& recorder_;
  std::string base_;  ///< fingerprint of what the adapter stands beside; empty without one
  StateSaver saver_;
  SpinThrottle throttle_;
  int64_t saved_at_ = -1;
  std::chrono::steady_clock::time_point last_save_;
};

ExitStatus train(TrainingRun& run, Assembly& assembly) {
  Trainer& trainer = assembly.trainer();
  run.start_training();
  if (trainer.state().step == 0) run.validate();
  while (trainer.state().step < trainer.num_steps())
    if (const auto end = run.after_step(trainer.step())) return *end;
  run.validate();
  run.save(/*last=*/true);
  run.publish_model();
  return ExitStatus::done;
}

void tell_of_widened_products(const ShardedModel& model, Recorder& recorder) {
  const std::string text = about_widened_products(c10::typeMetaToScalarType(model.compute().dtype()));
  if (!text.empty()) recorder.event("warning", "precision", 0, text);
}

struct Ended {
  ExitStatus status;
  std::filesystem::path model;  ///< when it is done
};

void tell(const std::string& text) { std::fprintf(stderr, "%s\n", text.c_str()); }

Ended run_one(Session& session, const Experiment& experiment, const Stages& stages, bool resume) {
  check_groups(experiment, session.size());
  name_progress(experiment.name);
  session.channels().set_timeout(timeout_of(experiment));
  const Identity identity = agree_on_identity(session, experiment, stages);
  ResumePoint from;
  if (resume) {
    if (session.is_rank0()) from = find_resume_point(identity.config_hash, session.job().database, tell);
    from.folder = session.peers().broadcast("finding the checkpoint", from.folder.string());
  }
  Recorder recorder(session, experiment, identity, from.run_id);
  ExitStatus status = ExitStatus::bug;
  try {
    std::optional<Phase> phase(std::in_place, "start");
    Assembly assembly(session, experiment, identity, stages, [&](const std::string& text) { recorder.say(text); });
    // After this line no rank may change the plugins, the data or the shape of the model.
    TrainingRun run(session, experiment, identity, assembly, recorder);
    if (resume) run.load(from.folder);
    if (session.device().is_cpu()) tell_of_widened_products(assembly.model(), recorder);
    phase.reset();
    status = train(run, assembly);
    recorder.resources(assembly.trainer().state().step);
  } catch (...) {
    const Error error = caught_error();
    recorder.event("error", "failed", 0, error.what());
    recorder.end(error.status());
    throw error;
  }
  recorder.end(status);
  return {status, model_in(recorder.run_folder())};
}

/// Rank 0's answer, on every rank.
bool agreed(Session& session, const std::string& question, const std::function<bool()>& ask_log) {
  return session.peers().broadcast(question, session.is_rank0() && ask_log() ? "yes" : "no") == "yes";
}

/// Rank 0 asks the log, all do the same.
Stage find_stage(Session& session, ExperimentHashes& hashes, const Experiment& stage) {
  Stages found;
  if (session.is_rank0()) {
    const std::string& hash = hashes.of(stage);
    const auto run = reusable_run(hash, session.job().database);
    found["stage"] = {hash, run ? model_in(run->folder) : std::filesystem::path()};
  }
  return stages_from_text(session.peers().broadcast("looking for a finished stage", to_text(found))).at("stage");
}

/// Runs what the log lacks, deepest first; with --resume an unfinished stage goes on, which `resumed` then says.
ExitStatus run_missing_stages(Session& session, ExperimentHashes& hashes, const Experiment& experiment, Stages& stages,
                              bool& resumed) {
  for (const NamedStage& named : named_stages(experiment)) {
    Stage stage = find_stage(session, hashes, *named.experiment);
    if (stage.model.empty()) {
      Stages below;
      const ExitStatus status = run_missing_stages(session, hashes, *named.experiment, below, resumed);
      if (status != ExitStatus::done) return status;
      const bool goes_on = session.job().resume && agreed(session, "looking for an unfinished stage", [&] {
                             return resume_point(stage.config_hash, session.job().database, tell).has_value();
                           });
      resumed = resumed || goes_on;
      const Ended ended = run_one(session, *named.experiment, below, goes_on);
      if (ended.status != ExitStatus::done) return ended.status;
      stage.model = ended.model;
    }
    for (const std::string& table : named.tables) stages[table] = stage;
  }
  return ExitStatus::done;
}

}  // namespace

ExitStatus run_with_stages(Session& session, const Experiment& experiment) {
  Stages stages = session.job().stages;
  ExperimentHashes hashes(session.catalog(), session.job().database);
  bool resume = session.job().resume, stage_resumed = false;
  if (stages.empty()) {
    const ExitStatus status = run_missing_stages(session, hashes, experiment, stages, stage_resumed);
    if (status != ExitStatus::done) return status;
  }
  if (resume && stage_resumed)
    resume = agreed(session, "looking for an unfinished run",
                    [&] { return resume_point(hashes.of(experiment), session.job().database, tell).has_value(); });
  return run_one(session, experiment, stages, resume).status;
}

}  // namespace wmtp
