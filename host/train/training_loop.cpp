#include "train/training_loop.hpp"

#include <algorithm>
#include <cmath>

#include "base/log.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "checkpoint/base_model.hpp"
#include "checkpoint/torch/adapter_files.hpp"
#include "checkpoint/torch/folder_copies.hpp"
#include "checkpoint/torch/model_files.hpp"
#include "checkpoint/torch/training_state.hpp"
#include "data/tokens/step_count.hpp"
#include "inference/model_requests.hpp"
#include "io/durable_file.hpp"
#include "job/reusable_run.hpp"
#include "log/run_folders.hpp"
#include "memory/phase.hpp"
#include "train/equal_states.hpp"
#include "train/step_profile.hpp"

namespace wmtp {

using namespace std::chrono_literals;

TrainingLoop::TrainingLoop(Session& session, const Experiment& experiment, const RunIdentity& identity,
                           Assembly& assembly, Recorder& recorder)
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

TrainingLoop::~TrainingLoop() {
  trainer().on_save({});
  finish_save();
}

void TrainingLoop::load(const ResumePoint& from) {
  const std::filesystem::path& folder = from.folder;
  const std::string& wanted = from.config_hash.empty() ? identity_.config_hash : from.config_hash;
  const WorkProgress progress("reading the checkpoint");
  complete_on_every_host(session_.channels(), session_.writers(), folder);
  TrainerState& state = trainer().state();
  const auto [manifest, saved] = load_training_state(folder, trainer().optimizer(), state.pipeline_state);
  if (manifest.config_hash != wanted)
    throw Error(ExitStatus::data, folder.string() + ": it belongs to another experiment: found hash " +
                                      manifest.config_hash + ", wanted " + wanted);
  if (session_.is_rank0()) warn_of_rebuilt_plugins(manifest, folder);
  state.restore(manifest, saved, sequences_per_step(experiment_.train, manifest.world_size), folder.string());
  if (state.drawn != state.step * sequences_per_step(experiment_.train, session_.data_ranks()))
    assembly_.resume_with_world_size(manifest.world_size);
  if (state.step > trainer().num_steps())
    throw Error(ExitStatus::data, folder.string() + ": it was saved at step " + std::to_string(state.step) +
                                      ", but the run ends after " + counted(trainer().num_steps(), "step"));
  check_states();
}

ExitStatus TrainingLoop::run() {
  start_training();
  if (begins_with_validation() && validate()) save(/*last=*/false);
  while (trainer().state().step < trainer().num_steps())
    if (const auto end = after_step(step())) return *end;
  // Not again in a run that was killed after its last checkpoint: the log has the steps of both.
  if (has_trained() || !recorder_.validated(trainer().state().step)) validate();  // the last checkpoint is saved anyway
  save(/*last=*/true);
  publish_model();
  return ExitStatus::done;
}

void TrainingLoop::start_training() {
  started_at_ = trainer().state().step;
  recorder_.start_training({trainer().state().step + 1, trainer().num_steps(), steps_between_validations()},
                           sequences_per_step(experiment_.train, session_.data_ranks()));
  last_save_ = std::chrono::steady_clock::now();
}

bool TrainingLoop::begins_with_validation() {
  return trainer().state().step == 0 || (validation_is_due() && !recorder_.validated(trainer().state().step));
}

bool TrainingLoop::validate() {
  const int64_t step = trainer().state().step;
  const auto begun = std::chrono::steady_clock::now();
  const auto metrics = trainer().validate();
  std::vector<Generation> texts = continue_prompts();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begun;
  recorder_.validation(step, metrics, passed.count());
  recorder_.samples(step, trainer().sample(), assembly_.opened_tokenizer());
  recorder_.generations(step, std::move(texts));
  if (has_trained() && step != trainer().num_steps()) recorder_.resources(step);  // also written at the end
  return note_validation(metrics) && experiment_.checkpoint.keep_best;
}

void TrainingLoop::save(bool last) {
  const Phase phase("checkpoint");
  std::optional<WorkProgress> progress;
  if (last) progress.emplace("writing the last checkpoint");
  refuse_lost(finish_save());
  const int64_t step = trainer().state().step;
  if (saved_at_ == step) return;
  check_states();
  const std::map<std::string, at::Tensor> tensors = trainer().state().named_tensors();
  SaveRequest request = save_request(tensors);
  // Without this, a run that is killed and resumed would lack steps in the log. Training waits for the last save.
  request.before_publishing = [this, last] { recorder_.flush_log(last ? 1s : 15s); };
  saver_.begin(request, last ? SaveMode::alone : SaveMode::concurrent);
  last_save_ = std::chrono::steady_clock::now();
  if (!last) return;
  const SaveOutcome outcome = *saver_.finish();
  refuse_lost(outcome);
  recorder_.saved(outcome);
  if (!outcome.failure.empty()) throw Error(ExitStatus::storage, outcome.failure);
}

void TrainingLoop::publish_model() {
  const Phase phase("checkpoint");
  const int64_t step = trainer().state().step;
  if (assembly_.model().has_adapter())
    save_adapter(recorder_.run_folder() / "adapter", step, identity_.config_hash, adapter_identity(),
                 assembly_.model());
  save_model(model_in(recorder_.run_folder()), step, identity_.config_hash, assembly_.model(), &assembly_.adapter(),
             assembly_.tokenizer());
  if (experiment_.train.ema == 0) return;
  trainer().optimizer().swap_with_ema();
  save_model(recorder_.run_folder() / "model-ema", step, identity_.config_hash, assembly_.model(), &assembly_.adapter(),
             assembly_.tokenizer());
  trainer().optimizer().swap_with_ema();
}

StepReport TrainingLoop::step() {
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

std::optional<ExitStatus> TrainingLoop::after_step(const StepReport& report) {
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
  if (report.step == trainer().num_steps()) return std::nullopt;  // it is validated before its save, which has the loss
  const bool is_best = validation_is_due() && validate();
  const CheckpointConfig& checkpoint = experiment_.checkpoint;
  if (step_is_multiple_of(checkpoint.every_steps) || step_completes(checkpoint.every_epochs) || report.save || is_best)
    save(/*last=*/false);
  return std::nullopt;
}

ExitStatus TrainingLoop::give_up(int64_t step) {
  recorder_.event("error", "gave_up", step,
                  "skipped " + counted(trainer().state().guard.in_a_row(), "consecutive step") +
                      " (guard.max_in_a_row); the last checkpoint is kept: lower optimizer.lr, or inspect the data");
  return ExitStatus::guard;
}

bool TrainingLoop::step_is_multiple_of(int64_t steps) { return steps > 0 && trainer().state().step % steps == 0; }

bool TrainingLoop::step_completes(double epochs) {
  if (epochs <= 0 || trainer().state().step == 0) return false;
  const double between = epochs * double(assembly_.sequences_per_epoch());
  const int64_t drawn = trainer().state().drawn, read = sequences_per_step(experiment_.train, session_.data_ranks());
  return std::floor(double(drawn) / between) > std::floor(double(drawn - read) / between);
}

int64_t TrainingLoop::steps_between_validations() {
  const ValidationConfig& validation = experiment_.validation;
  if (validation.every_steps > 0 || validation.every_epochs <= 0) return validation.every_steps;
  const int64_t read = sequences_per_step(experiment_.train, session_.data_ranks());
  return std::max<int64_t>(1, int64_t(validation.every_epochs * double(assembly_.sequences_per_epoch())) / read);
}

bool TrainingLoop::validation_is_due() {
  const ValidationConfig& validation = experiment_.validation;
  return (step_is_multiple_of(validation.every_steps) || step_completes(validation.every_epochs)) &&
         trainer().state().step != trainer().num_steps();
}

bool TrainingLoop::note_validation(const std::map<std::string, double>& metrics) {
  auto found = metrics.find("valid/ce_head_1");
  if (found == metrics.end()) found = metrics.find("valid/loss");
  const TrainerState& state = trainer().state();
  if (found == metrics.end() || state.step == 0) return false;
  RunProgress& results = trainer().state().results;
  const double loss = found->second;
  results.valid_loss = loss;
  results.valid_step = state.step;
  if (!std::isfinite(loss) || (results.best_loss && loss >= *results.best_loss)) return false;
  results.best_loss = loss;
  return true;
}

/// The hash of an experiment has the versions of plugins, not their files.
void TrainingLoop::warn_of_rebuilt_plugins(const Manifest& manifest, const std::filesystem::path& folder) const {
  for (const auto& [part, plugin] : identity_.plugins()) {
    const auto saved = manifest.plugins.find(part + " " + plugin->name);
    if (saved != manifest.plugins.end() && saved->second != plugin->sha256)
      log_warning(
          rebuilt_text(folder.string() + ": it was saved with", part + " " + plugin->name + " " + plugin->version));
  }
}

std::function<void(const std::filesystem::path&)> TrainingLoop::description_writer() const {
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

AdapterIdentity TrainingLoop::adapter_identity() const {
  return {identity_.adapter.name, identity_.adapter.version, experiment_.adapter.options,
          assembly_.started_from().string()};
}

void TrainingLoop::check_states() {
  check_equal_states(experiment_.pipeline.plugin, trainer().state().pipeline_state, session_.section_channels());
}

std::vector<Generation> TrainingLoop::continue_prompts() {
  const std::vector<std::string>& prompts = experiment_.log.prompts;
  if (prompts.empty()) return {};
  const Phase phase("generation");
  const int64_t step = trainer().state().step;
  const std::filesystem::path copy = recorder_.run_folder() / prompts_model_name;
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

std::vector<Generation> TrainingLoop::continued(const std::vector<std::string>& prompts,
                                                const std::filesystem::path& model) const {
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

SaveRequest TrainingLoop::save_request(const std::map<std::string, at::Tensor>& named_tensors) {
  const TrainerState& state = trainer().state();
  SaveRequest request{state.step, identity_.config_hash, {}, state.saved(), &named_tensors, describe_};
  request.state.results.epoch = assembly_.epoch();
  for (const auto& [part, plugin] : identity_.plugins()) request.plugins[part + " " + plugin->name] = plugin->sha256;
  return request;
}

bool TrainingLoop::save_is_due() const {
  const double every = experiment_.checkpoint.every_minutes;
  return every > 0 && session_.is_rank0() &&
         std::chrono::steady_clock::now() - last_save_ >= std::chrono::duration<double, std::ratio<60>>(every);
}

std::optional<SaveOutcome> TrainingLoop::finish_save() {
  std::optional<SaveOutcome> outcome = saver_.finish();
  record(outcome);
  return outcome;
}

void TrainingLoop::refuse_lost(const std::optional<SaveOutcome>& outcome) {
  if (outcome && outcome->rank_lost) throw session_.peers().explain("writing a checkpoint", outcome->failure);
}

void TrainingLoop::record(const std::optional<SaveOutcome>& outcome) {
  if (!outcome || outcome->rank_lost) return;  // the next save or collective will report a lost rank
  if (outcome->failure.empty()) saved_at_ = outcome->step;
  recorder_.saved(*outcome);
}

}  // namespace wmtp
