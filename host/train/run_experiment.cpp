#include "train/run_experiment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <ctime>
#include <functional>
#include <map>
#include <optional>

#include "base/environment.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "checkpoint/adapter_identity.hpp"
#include "checkpoint/base_model.hpp"
#include "checkpoint/torch/adapter_files.hpp"
#include "checkpoint/torch/folder_copies.hpp"
#include "checkpoint/torch/model_files.hpp"
#include "checkpoint/torch/state_saver.hpp"
#include "checkpoint/torch/training_state.hpp"
#include "data/tokens/step_count.hpp"
#include "inference/model_requests.hpp"
#include "io/durable_file.hpp"
#include "job/input_checks.hpp"
#include "job/stages.hpp"
#include "memory/caught_error.hpp"
#include "memory/phase.hpp"
#include "model/torch/product_path.hpp"
#include "process/process_stat.hpp"
#include "train/assembly.hpp"
#include "train/equal_states.hpp"
#include "train/recorder.hpp"
#include "train/spin_throttle.hpp"
#include "train/step_profile.hpp"
#include "train/stop_handler.hpp"

namespace wmtp {
namespace {

/// The actions of a run. The destructor finishes and logs a save in flight, however the run ends.
class TrainingLoop {
 public:
  TrainingLoop(Session& session, const Experiment& experiment, const Identity& identity, Assembly& assembly,
               Recorder& recorder)
      : session_(session),
        experiment_(experiment),
        identity_(identity),
        assembly_(assembly),
        recorder_(recorder),
        saver_(session.peers(), assembly.trainer().optimizer(), recorder.run_folder(),
               {experiment.checkpoint.keep, experiment.checkpoint.keep_best}, session.writers()) {
    if (assembly.model().has_adapter())
      trainer().state().base_fingerprint = fingerprint_text(assembly.model().base_fingerprint());
    if (session.is_rank0()) describe_ = description_writer();
    trainer().on_save({[this] { return save_is_due(); }, [this] { saver_.wait_for_copies(); }});
  }
  ~TrainingLoop() {
    trainer().on_save({});
    finish_save();
  }
  TrainingLoop(const TrainingLoop&) = delete;

  void load(const ResumePoint& from) {
    const std::filesystem::path& folder = from.folder;
    const std::string& wanted = from.config_hash.empty() ? identity_.config_hash : from.config_hash;
    const WorkProgress progress("reading the checkpoint");
    complete_on_every_host(session_.channels(), session_.writers(), folder);
    TrainerState& state = trainer().state();
    const auto [manifest, saved] = load_training_state(folder, trainer().optimizer(), state.pipeline);
    if (manifest.config_hash != wanted)
      throw Error(ExitStatus::data, folder.string() + ": it belongs to another experiment: found hash " +
                                        manifest.config_hash + ", wanted " + wanted);
    state.restore(manifest, saved, sequences_per_step(experiment_.train, manifest.world_size), folder.string());
    if (state.drawn != state.step * sequences_per_step(experiment_.train, session_.data_ranks()))
      assembly_.resume_with_world_size(manifest.world_size);
    if (state.step > trainer().num_steps())
      throw Error(ExitStatus::data, folder.string() + ": it was saved at step " + std::to_string(state.step) +
                                        ", but the run ends after " + counted(trainer().num_steps(), "step"));
    check_states();
  }

  void start_training() {
    recorder_.start_training({trainer().state().step + 1, trainer().num_steps(), steps_between_validations()},
                             sequences_per_step(experiment_.train, session_.data_ranks()));
    last_save_ = std::chrono::steady_clock::now();
  }

  /// Whether the model as it is now is to be validated first: at step 0, or where a signal stopped the resumed run
  /// after a step that was due for it. [all ranks, collective]
  bool begins_with_validation() {
    return trainer().state().step == 0 || (validation_is_due() && !recorder_.validated(trainer().state().step));
  }

  /// Whether checkpoint.keep_best wants the model as it is now to be saved.
  bool validate() {
    const int64_t step = trainer().state().step;
    const auto begun = std::chrono::steady_clock::now();
    const auto metrics = trainer().validate();
    std::vector<Generation> texts = continue_prompts();
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
    recorder_.validation(step, metrics, passed.count());
    recorder_.samples(step, trainer().sample(), assembly_.opened_tokenizer());
    recorder_.generations(step, std::move(texts));
    if (step > 0 && step != trainer().num_steps()) recorder_.resources(step);  // also written at the end
    return note_validation(metrics) && experiment_.checkpoint.keep_best;
  }

  /// Failing to write a checkpoint does not end the run, unless it is the last one.
  void save(bool last) {
    const Phase phase("checkpoint");
    std::optional<WorkProgress> progress;
    if (last) progress.emplace("writing the last checkpoint");
    refuse_lost(finish_save());
    const int64_t step = trainer().state().step;
    if (saved_at_ == step) return;
    check_states();
    saver_.begin(save_request(), last ? SaveMode::alone : SaveMode::concurrent);
    last_save_ = std::chrono::steady_clock::now();
    if (!last) return;
    const SaveOutcome outcome = *saver_.finish();
    refuse_lost(outcome);
    if (!outcome.failure.empty()) throw Error(ExitStatus::storage, outcome.failure);
    recorder_.saved(outcome);
  }

  void publish_model() {
    const Phase phase("checkpoint");
    const int64_t step = trainer().state().step;
    if (assembly_.model().has_adapter())
      save_adapter(recorder_.run_folder() / "adapter", step, identity_.config_hash, adapter_identity(),
                   assembly_.model());
    save_model(model_in(recorder_.run_folder()), step, identity_.config_hash, assembly_.model(), &assembly_.adapter(),
               assembly_.tokenizer());
    if (experiment_.train.ema == 0) return;
    trainer().optimizer().swap_with_ema();
    save_model(recorder_.run_folder() / "model-ema", step, identity_.config_hash, assembly_.model(),
               &assembly_.adapter(), assembly_.tokenizer());
    trainer().optimizer().swap_with_ema();
  }

  /// Trains one step, and profiles that of log.profile_step. A profile that cannot be written does not end the run.
  StepReport step() {
    if (trainer().state().step + 1 != experiment_.log.profile_step) return trainer().step();
    StepProfile profile(session_.device());
    StepReport report = trainer().step();
    try {
      profile.save(recorder_.run_folder() / printed("profile-%04d.json", session_.rank()));
    } catch (const Error& error) {
      recorder_.event("warning", "profile", report.step, std::string("profile not written: ") + error.what());
    }
    return report;
  }

  /// The exit status that ends training, or nullopt.
  std::optional<ExitStatus> after_step(const StepReport& report) {
    recorder_.step(report);
    if (report.measured_loss) trainer().state().results.train_loss = report.loss;
    record(saver_.take());
    if (report.memory_grew) recorder_.resources(report.step);
    if (report.overflowed) {
      recorder_.event("info", "overflow", report.step,
                      "step " + std::to_string(report.step) + " skipped: " + report.skipped);
    } else if (!report.skipped.empty()) {
      recorder_.event("warning", "skipped", report.step,
                      "step " + std::to_string(report.step) + " skipped: " + report.skipped + "; sequences " +
                          Json(report.sequences).dump());
      if (trainer().state().guard.gave_up()) return give_up(report.step);
    }
    if (report.stop) {
      save(/*last=*/true);
      recorder_.event("info", "stopped", report.step, "stopped by a signal; resume with --resume");
      return ExitStatus::interrupted;
    }
    const bool is_best = validation_is_due() && validate();
    const CheckpointConfig& checkpoint = experiment_.checkpoint;
    if (step_is_multiple_of(checkpoint.every_steps) || step_completes(checkpoint.every_epochs) || report.save ||
        is_best)
      save(/*last=*/false);
    return std::nullopt;
  }

  ExitStatus give_up(int64_t step) {
    recorder_.event("error", "gave_up", step,
                    "skipped " + counted(trainer().state().guard.in_a_row(), "consecutive step") +
                        " (guard.max_in_a_row); the last checkpoint is kept: lower optimizer.lr, or inspect the data");
    return ExitStatus::guard;
  }

 private:
  Trainer& trainer() { return assembly_.trainer(); }

  bool step_is_multiple_of(int64_t steps) { return steps > 0 && trainer().state().step % steps == 0; }
  /// Whether the last step completed a multiple of that many passes over the training data.
  bool step_completes(double epochs) {
    if (epochs <= 0 || trainer().state().step == 0) return false;
    const double between = epochs * double(assembly_.sequences_per_epoch());
    const int64_t drawn = trainer().state().drawn, read = sequences_per_step(experiment_.train, session_.data_ranks());
    return std::floor(double(drawn) / between) > std::floor(double(drawn - read) / between);
  }
  /// For estimates; 0: only at the end.
  int64_t steps_between_validations() {
    const ValidationConfig& validation = experiment_.validation;
    if (validation.every_steps > 0 || validation.every_epochs <= 0) return validation.every_steps;
    const int64_t read = sequences_per_step(experiment_.train, session_.data_ranks());
    return std::max<int64_t>(1, int64_t(validation.every_epochs * double(assembly_.sequences_per_epoch())) / read);
  }
  /// The model is always validated after the last step.
  bool validation_is_due() {
    const ValidationConfig& validation = experiment_.validation;
    return (step_is_multiple_of(validation.every_steps) || step_completes(validation.every_epochs)) &&
           trainer().state().step != trainer().num_steps();
  }

  /// Whether the model now has the lowest validation loss of head 1, or of a critic, since step 0. Equal on all ranks.
  bool note_validation(const std::map<std::string, double>& metrics) {
    auto found = metrics.find("valid/ce_head_1");
    if (found == metrics.end()) found = metrics.find("valid/loss");
    const TrainerState& state = trainer().state();
    if (found == metrics.end() || state.step == 0) return false;
    RunResults& results = trainer().state().results;
    const double loss = found->second;
    results.valid_loss = loss;
    results.valid_step = state.step;
    if (!std::isfinite(loss) || (results.best_loss && loss >= *results.best_loss)) return false;
    results.best_loss = loss;
    return true;
  }

  /// [rank 0] Writes what makes a checkpoint a model.
  std::function<void(const std::filesystem::path&)> description_writer() const {
    std::map<std::string, std::string> files;
    if (const auto base = assembly_.base_model()) files[base_model_name] = pretty_json(*base);
    if (assembly_.model().has_adapter())
      files[adapter_identity_name] =
          pretty_json(identity_json(adapter_identity(), assembly_.trainer().state().base_fingerprint));
    return [files, model = describe_model(assembly_.model(), assembly_.tokenizer())](const auto& folder) {
      for (const auto& [name, text] : files) write_new_file(folder / name, text);
      write_description(folder, model);  // last, because a tokenizer's file may be gone
    };
  }

  AdapterIdentity adapter_identity() const {
    return {identity_.adapter.name, identity_.adapter.version, experiment_.adapter.options,
            assembly_.started_from().string()};
  }

  void check_states() {
    check_equal_states(experiment_.pipeline.plugin, trainer().state().pipeline, session_.section());
  }

  /// What `generate` would write after log.prompts with the model as it is now. Rank 0 reads a copy of the model from
  /// the run's folder while the others wait. A copy that cannot be written costs the texts, not the run.
  std::vector<Generation> continue_prompts() {
    const std::vector<std::string>& prompts = experiment_.log.prompts;
    if (prompts.empty()) return {};
    const Phase phase("generation");
    const int64_t step = trainer().state().step;
    const std::filesystem::path copy = recorder_.run_folder() / "model-for-prompts";
    std::vector<Generation> texts;
    try {
      save_model(copy, step, identity_.config_hash, assembly_.model(), &assembly_.adapter(), assembly_.tokenizer());
      const auto generate = [&] {
        if (session_.is_rank0()) texts = continued(prompts, copy);
      };
      const std::optional<Error> failure = failure_of(generate);
      std::error_code ignored;
      if (session_.is_rank0()) std::filesystem::remove_all(copy, ignored);
      session_.peers().rethrow_on_all_ranks("continuing log.prompts", failure);
    } catch (const Error& error) {
      if (error.status() != ExitStatus::storage) throw;
      recorder_.event("warning", "prompts", step, std::string("log.prompts not continued: ") + error.what());
    }
    return texts;
  }

  std::vector<Generation> continued(const std::vector<std::string>& prompts, const std::filesystem::path& model) const {
    AnswerRequest request;
    request.model = model;
    for (const std::string& prompt : prompts) request.prompts.push_back(whole_prompt(prompt));
    request.max_tokens = experiment_.log.prompt_tokens;
    const Answers answers = write_answers(request);
    std::vector<Generation> texts;
    for (size_t i = 0; i < prompts.size(); ++i) {
      if (!answers[0][i])
        throw Error(ExitStatus::usage, experiment_.file.string() + ": [log] prompts: prompt " + std::to_string(i + 1) +
                                           " has more tokens than [model] max_sequence_length = " +
                                           std::to_string(experiment_.model.max_sequence_length) + "; shorten it");
      texts.push_back({int64_t(i) + 1, prompts[i], *answers[0][i]});
    }
    return texts;
  }

  SaveRequest save_request() {
    const TrainerState& state = trainer().state();
    SaveRequest request{state.step, identity_.config_hash, {}, state.saved(), &state.pipeline, describe_};
    request.state.results.epoch = assembly_.epoch();
    for (const auto& [part, plugin] : identity_.plugins()) request.plugins[part + " " + plugin->name] = plugin->sha256;
    return request;
  }

  /// Rank 0's clock decides for all ranks.
  bool save_is_due() const {
    const double every = experiment_.checkpoint.every_minutes;
    return every > 0 && session_.is_rank0() &&
           std::chrono::steady_clock::now() - last_save_ >= std::chrono::duration<double, std::ratio<60>>(every);
  }

  std::optional<SaveOutcome> finish_save() {
    std::optional<SaveOutcome> outcome = saver_.finish();
    record(outcome);
    return outcome;
  }

  void refuse_lost(const std::optional<SaveOutcome>& outcome) {
    if (outcome && outcome->rank_lost) throw session_.peers().explain("writing a checkpoint", outcome->failure);
  }

  void record(const std::optional<SaveOutcome>& outcome) {
    if (!outcome || outcome->rank_lost) return;  // the next save or collective will report a lost rank
    if (outcome->failure.empty()) saved_at_ = outcome->step;
    recorder_.saved(*outcome);
  }

  Session& session_;
  const Experiment& experiment_;
  const Identity& identity_;
  Assembly& assembly_;
  Recorder& recorder_;
  StateSaver saver_;
  std::function<void(const std::filesystem::path&)> describe_;
  SpinThrottle throttle_;
  int64_t saved_at_ = -1;
  std::chrono::steady_clock::time_point last_save_;
};

ExitStatus train(TrainingLoop& run, Assembly& assembly) {
  Trainer& trainer = assembly.trainer();
  run.start_training();
  if (run.begins_with_validation() && run.validate()) run.save(/*last=*/false);
  while (trainer.state().step < trainer.num_steps())
    if (const auto end = run.after_step(run.step())) return *end;
  run.validate();  // the last checkpoint is saved anyway
  run.save(/*last=*/true);
  run.publish_model();
  return ExitStatus::done;
}

/// Where half of a step or more is waiting.
void warn_of_bubble(const Experiment& experiment, const Session& session, Recorder& recorder) {
  const int64_t sections = experiment.parallel.pipeline, micros = micro_batches(experiment.train, session.data_ranks());
  const double bubble = pipeline_bubble(sections, micros);
  if (bubble >= 0.5)
    recorder.event(
        "warning", "pipeline", 0,
        printed("%lld sections wait for %.0f%% of each step, because it has %s: raise "
                "train.gradient_accumulation",
                static_cast<long long>(sections), 100 * bubble, counted(micros, "micro-batch", "es").c_str()));
}

void warn_of_widened_products(const ShardedModel& model, Recorder& recorder) {
  const std::string text = widened_products_notice(c10::typeMetaToScalarType(model.compute().dtype()));
  if (!text.empty()) recorder.event("warning", "precision", 0, text);
}

/// The experiment with the size of its shard groups.
Experiment with_known_groups(const Session& session, const Experiment& as_read) {
  check_groups(as_read, session.size());
  if (as_read.parallel.shard_group_size != host_shard_groups) return as_read;
  const std::string wanted_by = as_read.file.string() + ": [parallel] shard_group_size = \"host\"";
  return with_host_shard_groups(as_read, count_ranks_per_host(session.peers().locations(), wanted_by));
}

RunResult run_one(Session& session, const Experiment& as_read, const Stages& stages, const ResumePoint& from) {
  const Experiment experiment = with_known_groups(session, as_read);
  set_progress_prefix(experiment.name);
  session.channels().set_timeout(peer_timeout(experiment));
  session.channels().form_sections(int(experiment.parallel.pipeline));
  session.section().share_sequences(int(experiment.parallel.sequence), int(experiment.parallel.tensor));
  if (!session.writers().is_shared_folder())
    for (const auto& [table, stage] : stages)
      complete_on_every_host(session.channels(), session.writers(), stage.model);
  const Identity identity = agree_on_identity(session, experiment, stages);
  Recorder recorder(session, experiment, identity, from.run_id);
  ExitStatus status = ExitStatus::bug;
  try {
    std::optional<Phase> phase(std::in_place, "start");
    Assembly assembly(session, experiment, identity, stages, [&](const std::string& text) { recorder.info(text); });
    TrainingLoop run(session, experiment, identity, assembly, recorder);
    if (!from.folder.empty()) run.load(from);
    if (session.device().is_cpu()) warn_of_widened_products(assembly.model(), recorder);
    warn_of_bubble(experiment, session, recorder);
    recorder.restarted(session.job().restart, assembly.trainer().state().step);
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

/// As in `runs`.started_at, which is rounded down; so this is rounded up: ranks start a second after an agent.
std::string utc_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::ceil<std::chrono::seconds>(time));
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

/// When torchrun's agent, which starts this rank again after a failure, was started; "" under another launcher.
std::string agent_begun() {
  if (environment_value("TORCHELASTIC_RUN_ID").empty()) return "";
  const auto agent = process_stat(getppid());
  return agent ? utc_text(agent->begun) : "";
}

/// As the user said. If not, a run that this job of torchrun has begun is continued: an agent starts its ranks again
/// when one of them, or another agent, is lost, and only some of the ranks are told (TORCHELASTIC_RESTART_COUNT).
ResumeRule agree_on_resume(Session& session) {
  const std::vector<std::string> begun = session.peers().gather("looking for the launcher", agent_begun());
  ResumeRule rule{session.job().resume, ""};
  if (rule.resume != Resume::no) return rule;
  for (const std::string& one : begun)
    if (!one.empty() && (rule.since.empty() || one < rule.since)) rule.since = one;
  if (!rule.since.empty()) rule.resume = Resume::if_begun;
  return rule;
}

/// Rank 0 plans for all ranks from the log.
std::vector<RunPlan> agree_on_plan(Session& session, const Experiment& experiment) {
  const ResumeRule rule = agree_on_resume(session);
  Json plan;
  if (session.is_rank0()) {
    ExperimentHashes hashes(session.catalog(), session.job().database);
    const std::vector<RunPlan> runs = plan_run(experiment, hashes, rule);
    log_plan(runs);
    for (const RunPlan& run : runs)
      if (run.reused_run == 0) verify_named_checkpoints(experiment_at(experiment, run.path), session.job().database);
    plan = runs;
  }
  return Json::parse(session.peers().broadcast("looking for finished stages", plan.dump()));
}

}  // namespace

ExitStatus run_with_stages(Session& session, const Experiment& experiment) {
  const Job& job = session.job();
  if (session.own_launcher()) return run_one(session, experiment, job.stages, job.from).status;
  return run_in_order(agree_on_plan(session, experiment), [&](const RunPlan& run, const Stages& stages) {
    if (session.is_rank0()) log_start(run);
    return run_one(session, experiment_at(experiment, run.path), stages, run.from);
  });
}

}  // namespace wmtp
