#include "train/trainer.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <sstream>

#include "base/error.hpp"
#include "base/text.hpp"
#include "checkpoint/torch/training_state.hpp"
#include "checkpoint/verify.hpp"
#include "data/tokens/step_count.hpp"
#include "memory/meta_device.hpp"
#include "memory/phase.hpp"
#include "optimizer/schedule.hpp"
#include "plugins/torch/signals.hpp"
#include "step/head_products.hpp"
#include "train/stop_handler.hpp"

namespace wmtp {
namespace {

StepRunnerConfig step_runner_config(const Experiment& e, When when, const at::Device& device) {
  StepRunnerConfig config;
  config.activation_checkpointing = e.parallel.activation_checkpointing;
  config.activation_offload = e.parallel.activation_offload;
  if (!e.parallel.offload_path.empty()) config.offload_path = e.resolve(e.parallel.offload_path);
  config.seed = e.seed;
  config.token_loss.normalize_by_weights = e.train.normalize == LossDivisor::weights;
  config.detach_heads = e.train.detach_heads;
  config.token_loss.head_weights = e.train.head_weights;
  config.token_loss.head_weights_later = e.train.head_weights_later;
  config.token_loss.chunk_tokens =
      chunk_tokens(e.model.vocab_size, is_cuda(device), /*losses_first=*/when == When::head);
  return config;
}

std::map<std::string, at::Tensor> copied(const std::map<std::string, at::Tensor>& pipeline_state) {
  std::map<std::string, at::Tensor> copies;
  for (const auto& [name, state] : pipeline_state) copies[name] = state.clone();
  return copies;
}

std::optional<OptimizerStateFileOptions> optimizer_state_file(const Experiment& e) {
  if (e.parallel.optimizer_offload == OptimizerOffload::none) return std::nullopt;
  return OptimizerStateFileOptions{e.resolve(e.parallel.offload_path)};
}

double seconds_of(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return seconds_since(start);
}

/// Of lines "name value".
std::map<std::string, double> parsed_metrics(const std::string& text) {
  std::map<std::string, double> metrics;
  std::istringstream lines(text);
  for (std::string name, value; lines >> name >> value;) metrics[name] = std::strtod(value.c_str(), nullptr);
  return metrics;
}

/// A gradient that nothing below needs is not computed. `what` compares heads.
void refuse_to_compare_frozen_heads(const std::string& what, const Experiment& e, const ShardedModel& model) {
  const BackwardExtent extent = model.backward_extent();
  const int64_t last = has_chained_heads(e.model) ? 1 : extent.num_heads();
  if (extent.first_head() <= last) return;
  throw Error(ExitStatus::usage, e.file.string() + ": " + what +
                                     ": no head sends a gradient to the trunk's output, because nothing trains there "
                                     "or below; remove it, or train " +
                                     (last == 1 ? "head 1 or the trunk" : "a head or the trunk"));
}

/// Whether the losses of all of these heads are.
bool are_finite(const StepTotals& totals, int64_t heads) {
  double sum = 0;
  for (int64_t k = 1; k <= heads; ++k) sum += totals.sum("ce/" + std::to_string(k));
  return std::isfinite(sum);
}

/// The factor that keeps a gradient's norm below `limit`, as in torch's clip_grad_norm_.
double clip_coefficient(double limit, double norm) { return std::min(1.0, limit / (norm + 1e-6)); }

}  // namespace

Trainer::Trainer(const Experiment& experiment, int64_t num_steps, ShardedModel& model, ActivePipeline& pipeline,
                 FrozenCaches frozen, const TrainerData& data, Channels& channels)
    : experiment_(experiment),
      num_steps_(num_steps),
      model_(model),
      pipeline_(pipeline),
      frozen_(std::move(frozen.training)),
      training_(*data.training),
      channels_(channels),
      state_{0, 0, 0, Guard(experiment.guard)},
      optimizer_(experiment.optimizer, model.trained_groups(), experiment.train.ema, optimizer_state_file(experiment)),
      collectives_(channels),
      run_context_{model.num_heads(),
                   experiment.model.vocab_size,
                   experiment.seed,
                   num_steps,
                   collectives_,
                   state_.pipeline_state,
                   [this]() -> FrozenModel& { return frozen_.front()->model(); }},
      step_runner_(model, pipeline, channels,
                   step_runner_config(experiment, pipeline.needs.when, model.compute().device())),
      operations_(step_operations(model)),
      utilization_(channels.all().size(),
                   [this] {
                     const Phase phase("start");
                     const TrainConfig& train = experiment_.train;
                     return multiplication_rate(
                         model_, train.batch_size * train.sequence_length / ranks_per_sequence(experiment_.parallel));
                   }),
      peak_rate_(peak_rate(experiment.parallel, model.compute().device())) {
  if (experiment.parallel.precision == Precision::fp16) state_.loss_scale.emplace();
  const auto trains = [](const UnitSpec& unit) { return std::ranges::any_of(unit.parameters, &ParameterSpec::trains); };
  if (std::ranges::none_of(model.whole(), trains))
    throw Error(ExitStatus::plugin, "adapter '" + experiment.adapter.plugin + "' trains no parameter of this model");
  if (pipeline.reads(Signal::policy_previous_loss) && model.section().is_last())
    state_.previous_losses.emplace(training_.windows(), experiment.train.sequence_length, model.num_heads(),
                                   model.compute().device());
  if (experiment.log.head_gradients_every > 0)
    refuse_to_compare_frozen_heads("[log] heads_every_steps", experiment, model);
  if (pipeline.reads(Signal::policy_alignment))
    refuse_to_compare_frozen_heads("[pipeline] reads " + to_text(Signal::policy_alignment), experiment, model);
  if (data.validation)
    validation_.emplace(ValidationRequest{data.validation, data.validation_sequences, experiment.train.batch_size,
                                          experiment.train.sequence_length, experiment.data.kind == DataKind::records},
                        step_runner_, run_context_, pipeline, channels);
  if (data.validation && pipeline.weighting && experiment.log.samples > 0)
    samples_.emplace(SampleRequest{data.validation, experiment.log.samples, data.validation_sequences,
                                   experiment.log.head_gradients_every > 0},
                     std::move(frozen.validation), step_runner_, run_context_, channels);
}

std::vector<MicroBatch> Trainer::fetch() const {
  std::vector<MicroBatch> micros;
  const int64_t accumulation = micro_batches(experiment_.train, channels_.data_ranks());
  for (int64_t a = 0; a < accumulation; ++a)
    micros.push_back(training_.training(state_.drawn + a * experiment_.train.batch_size * channels_.data_ranks(),
                                        channels_.data_rank(), channels_.data_ranks()));
  return micros;
}

/// Zero for every name that a step may add to, because all ranks must exchange the same names.
StepTotals Trainer::empty_totals() const {
  StepTotals totals(channels_.same_sequences_group().rank == 0);
  for (const char* name :
       {"loss", "weight/sum", "weight/square", "fault/not_finite", "fault/negative", "selection/missed"})
    totals.add(name, 0.0);
  for (int64_t k = 1; k <= model_.num_heads(); ++k) totals.add("ce/" + std::to_string(k), 0.0);
  if (pipeline_.auxiliary_loss)
    for (const int64_t k : pipeline_.auxiliary_loss->heads) totals.add("auxiliary/" + std::to_string(k), 0.0);
  if (compares_heads()) add_empty_head_products(model_.num_heads(), totals);
  return totals;
}

bool Trainer::compares_heads() const {
  const int64_t every = experiment_.log.head_gradients_every;
  return every > 0 && (state_.step + 1) % every == 0;
}

StepReport Trainer::step() {
  const auto start = std::chrono::steady_clock::now();
  const double waited = waited_seconds();
  const int64_t number = state_.step + 1;
  channels_.peers().record().set_step(number);
  std::optional<TimeScope> time(std::in_place, "data");
  const std::vector<MicroBatch> micros = fetch();
  FrozenSignals frozen(frozen_, micros);
  const StepCounts counts = count_over_ranks(micros, channels_, "counting the step's tokens", &frozen.missing());
  time.reset();

  const double scale = loss_scale();
  step_runner_.scale_gradients(scale);
  const at::Tensor sums = weight_sums(micros, counts, frozen);
  const auto [totals, job] = accumulate(micros, counts, frozen, sums, waited);
  // Weights of losses that are not finite cannot be, either: then the guard judges the step.
  if (has_finite_losses(totals, job)) refuse_faults(job);
  step_runner_.forget_weights();
  refuse_unsaved_state();

  StepReport report;
  report.step = number;
  report.loss = job.sum("loss");
  // What an objective or a value head is trained on, only the plugin knows.
  report.measured_loss = counts.heads_with_targets() > 0 || pipeline_.objective || !pipeline_.needs.heads.empty();
  report.stop = job.sum("stop") > 0;
  report.save = job.sum("save") > 0;
  report.memory_grew = job.sum("memory/grew") > 0;
  const double norm = gradient_norm(job) / scale;
  judge(norm, report);
  const double stalled = save_.before_update && report.skipped.empty() ? seconds_of(save_.before_update) : 0;
  const double lr = learning_rate(experiment_.schedule, experiment_.optimizer.lr, number, num_steps_);
  update(report, lr, norm, scale);
  state_.step = number;
  state_.drawn += sequences_per_step(experiment_.train, channels_.data_ranks());
  state_.tokens += counts.tokens;

  const double seconds = seconds_since(start) - stalled;
  report_metrics(totals, counts, norm, scale, report);
  report.metrics["train/lr"] = lr;
  if (state_.loss_scale) report.metrics["train/loss_scale"] = scale;
  report.metrics["train/tokens"] = double(state_.tokens);
  report.metrics["perf/step_seconds"] = seconds;
  report.metrics["perf/tokens_per_second"] = double(counts.tokens) / seconds;
  if (experiment_.data.kind == DataKind::records) {
    report.metrics["perf/padding"] = 1 - double(counts.tokens) / double(counts.positions);
    report.metrics["perf/targets_per_second"] = double(counts.targets.empty() ? 0 : counts.targets[0]) / seconds;
  }
  report.metrics["perf/run_tokens"] = double(tokens_trained_ += counts.tokens);
  report.metrics["perf/run_seconds"] = seconds_trained_ += seconds;
  // All ranks reach this right after the exchange, so they measure at the same time.
  if (job.sum("multiplication_rate/doubted") > 0) utilization_.measure();
  const double operations = operations_.operations(counts.tokens, counts.attended_keys);
  const double share = utilization_.share(operations, seconds);
  report.metrics["perf/mfu"] = peak_rate_ > 0 ? utilization_.share_at_rate(peak_rate_, operations, seconds) : share;
  if (peak_rate_ > 0) report.metrics["perf/multiplication_share"] = share;
  const int ranks = channels_.all().size();
  report.metrics["perf/communication_exposed"] = job.sum("waited") / ranks;
  for (int rank = 0; ranks > 1 && rank < ranks; ++rank)
    report.metrics["perf/waited_rank_" + std::to_string(rank)] = job.value_on_rank("waited", rank);
  if (const double limit = experiment_.train.clip_norm; limit > 0 && report.measured_loss) {
    report.metrics["train/clip_coef"] = clip_coefficient(limit, norm);
    report.metrics["train/clip_ratio"] = norm / limit;  // its name until 0.1, for one version
  }
  for (const MicroBatch& micro : micros)
    report.sequences.insert(report.sequences.end(), micro.sequences.begin(), micro.sequences.end());
  return report;
}

/// The divisors of train.normalize = "weights", [H]: each head's sum of weights over all ranks and micro-batches. Every
/// gradient is divided by them, so with several micro-batches all are weighed in advance, and the pipeline's state is
/// restored. Undefined if the step has other divisors, or one micro-batch, which finds them itself.
at::Tensor Trainer::weight_sums(const std::vector<MicroBatch>& micros, const StepCounts& counts,
                                const FrozenSignals& frozen) {
  if (experiment_.train.normalize != LossDivisor::weights || micros.size() == 1 || !pipeline_.weighting) return {};
  const Phase phase("weights");
  const std::map<std::string, at::Tensor> pipeline_state = copied(state_.pipeline_state);
  StepTotals dropped = empty_totals();
  at::Tensor sums;
  for (size_t i = 0; i < micros.size(); ++i) {
    MicroBatchContext step(run_context_, {state_.step + 1, counts, dropped}, micros[i],
                           known_signals(micros, i, frozen));
    const at::Tensor micro_sums = step_runner_.weight_sums(step);
    sums = sums.defined() ? sums + micro_sums : micro_sums;
  }
  state_.pipeline_state = pipeline_state;
  return sums.defined() ? channels_.sum(sums, "summing the weights") : sums;
}

/// What the frozen models and earlier steps say about the micro-batch with this index.
FrozenCache::Signals Trainer::known_signals(const std::vector<MicroBatch>& micros, size_t i,
                                            const FrozenSignals& frozen) {
  FrozenCache::Signals signals;
  if (!frozen_.empty()) {
    const Phase phase("frozen_models");
    signals = frozen.of(i);
  }
  if (state_.previous_losses) signals[to_text(Signal::policy_previous_loss)] = state_.previous_losses->of(micros[i]);
  return signals;
}

/// The gradients of a step and its totals. The step is repeated from the same state if a pipeline gave a weight to more
/// tokens than it had stated.
std::pair<StepTotals, StepTotals> Trainer::accumulate(const std::vector<MicroBatch>& micros, const StepCounts& counts,
                                                      const FrozenSignals& frozen, const at::Tensor& weight_sums,
                                                      double waited_at_start) {
  const bool may_repeat = is_cuda(model_.compute().device());
  const std::map<std::string, at::Tensor> pipeline_state =
      may_repeat ? copied(state_.pipeline_state) : std::map<std::string, at::Tensor>();
  double grew = 0;
  for (bool counts_selections = false;; counts_selections = true) {
    StepTotals totals = empty_totals();
    totals.add("memory/grew", grew);
    PreviousLosses* const kept_losses = state_.previous_losses ? &*state_.previous_losses : nullptr;
    if (kept_losses) kept_losses->begin_step();
    run_micro_batches(micros, frozen,
                      {state_.step + 1, counts, totals, counts_selections, weight_sums, compares_heads(), kept_losses});
    exchange(totals, waited_at_start);
    StepTotals job = job_totals(totals);
    if (job.sum("selection/missed") == 0) return {std::move(totals), std::move(job)};
    grew = job.sum("memory/grew");
    optimizer_.drop_gradients();
    step_runner_.forget_weights();
    state_.pipeline_state = pipeline_state;
  }
}

void Trainer::run_micro_batches(const std::vector<MicroBatch>& micros, const FrozenSignals& frozen,
                                const StepContext& step_context) {
  step_runner_.run(micros, [&](size_t i) {
    return std::make_unique<MicroBatchContext>(run_context_, step_context, micros[i], known_signals(micros, i, frozen));
  });
}

/// Adds this rank's requests and exchanges all totals with the ranks of its section.
void Trainer::exchange(StepTotals& totals, double waited_at_start) {
  const Phase phase("optimizer");
  totals.add("norm/part", optimizer_.local_norm_part(experiment_.train.norm));
  totals.add("stop", stop_requested() ? 1.0 : 0.0);
  totals.add("save", save_.wanted && save_.wanted() ? 1.0 : 0.0);
  totals.add("memory/grew", memory_watch_.grew() ? 1.0 : 0.0);
  totals.add("multiplication_rate/doubted", peak_rate_ == 0 && utilization_.doubted() ? 1.0 : 0.0);
  const double waited = waited_seconds();
  totals.add("waited", waited - waited_at_start + waited_after_);
  totals.exchange(channels_);
  waited_after_ = waited_seconds() - waited;
}

bool Trainer::has_finite_losses(const StepTotals& totals, const StepTotals& job) const {
  if (channels_.sections() > 1) return job.sum("losses/not_finite") == 0;
  return are_finite(totals, model_.num_heads());
}

StepTotals Trainer::job_totals(const StepTotals& totals) const {
  if (channels_.sections() == 1) return totals;
  StepTotals job = totals.values_of({"loss", "norm/part", "stop", "save", "memory/grew", "fault/not_finite",
                                     "fault/negative", "selection/missed", "multiplication_rate/doubted", "waited"});
  job.add("losses/not_finite", are_finite(totals, model_.num_heads()) ? 0.0 : 1.0);
  job.exchange(channels_.all());
  return job;
}

double Trainer::gradient_norm(const StepTotals& job) const {
  std::vector<double> parts;
  for (int rank = 0; rank < channels_.all().size(); ++rank) parts.push_back(job.value_on_rank("norm/part", rank));
  return combine_norm_parts(experiment_.train.norm, parts);
}

/// Clips, updates the parameters and keeps the losses, or drops the gradients of a skipped step.
void Trainer::update(const StepReport& report, double lr, double norm, double scale) {
  if (!report.skipped.empty()) return optimizer_.drop_gradients();
  const Phase phase("optimizer");
  const double limit = experiment_.train.clip_norm;
  optimizer_.step(lr, (limit > 0 ? clip_coefficient(limit, norm) : 1.0) / scale);
  if (state_.previous_losses) state_.previous_losses->end_step(channels_);
}

/// A non-finite loss goes to the guard: the loss is not scaled, so the scale cannot be the cause.
void Trainer::judge(double norm, StepReport& report) {
  if (state_.loss_scale && std::isfinite(report.loss)) {
    const double scale = state_.loss_scale->value();
    const bool overflowed = !std::isfinite(norm);
    state_.loss_scale->update(overflowed);
    report.overflowed = overflowed && scale > LossScale::minimum;
    if (report.overflowed)
      report.skipped = printed("its gradients overflowed fp16 at loss scale %.0f; the next step uses %.0f", scale,
                               state_.loss_scale->value());
  }
  if (!report.overflowed)
    report.skipped = state_.guard.judge(report.measured_loss ? std::optional(report.loss) : std::nullopt, norm);
}

/// A checkpoint could not be written, at the latest at the end of the run.
void Trainer::refuse_unsaved_state() const {
  for (const auto& [name, kept] : state_.pipeline_state)
    if (!can_be_saved(kept.scalar_type()))
      throw Error(ExitStatus::plugin, "plugin " + pipeline_.name + ": state " + printable(name) + " is of type " +
                                          c10::toString(kept.scalar_type()) + ", which no checkpoint holds; wanted " +
                                          join_names({state_dtype_names.begin(), state_dtype_names.end()}));
}

void Trainer::refuse_faults(const StepTotals& job) {
  const Channels& all = channels_.all();
  for (int rank = 0; rank < all.size(); ++rank) {
    const double not_finite = job.value_on_rank("fault/not_finite", rank),
                 negative = job.value_on_rank("fault/negative", rank);
    if (not_finite + negative == 0) continue;
    if (rank == all.rank()) step_runner_.refuse_faulty_weights();
    // The faulty weights are on another rank: rethrow that rank's error on every rank.
    throw channels_.peers().explain("checking the weights of pipeline '" + pipeline_.name + "'",
                                    "rank " + std::to_string(rank) + " returned invalid weights");
  }
}

/// Whether the losses of a head have a gradient, without which its auxiliary loss is not computed.
bool Trainer::trains_anything(int64_t head) const {
  return model_.weight("output.weight").trains() || model_.backward_extent().reaches_head(head);
}

void Trainer::report_metrics(const StepTotals& totals, const StepCounts& counts, double norm, double scale,
                             StepReport& report) const {
  auto& metrics = report.metrics;
  if (report.measured_loss) metrics["train/loss"] = report.loss;
  metrics["train/grad_norm"] = norm;
  metrics["guard/skipped"] = report.skipped.empty() || report.overflowed ? 0 : 1;
  metrics.merge(totals.plugin_metrics());
  if (pipeline_.objective || !model_.section().is_last()) return;
  if (!report.overflowed) metrics.merge(head_metrics(model_.num_heads(), totals, scale));
  double ce = 0, targets = 0;
  for (int64_t k = 1; k <= model_.num_heads(); ++k) {
    const double count = double(counts.targets[size_t(k - 1)]);
    if (count == 0) continue;
    const double head_loss = totals.sum("ce/" + std::to_string(k)) / count;
    metrics["train/ce_head_" + std::to_string(k)] = head_loss;
    if (pipeline_.auxiliary_loss && pipeline_.auxiliary_loss->heads.contains(k) && trains_anything(k))
      metrics["train/auxiliary_head_" + std::to_string(k)] = totals.sum("auxiliary/" + std::to_string(k)) / count;
    ce += head_loss / double(counts.heads_with_targets());
    targets += count;
  }
  if (targets == 0) return;
  metrics["train/ce"] = ce;
  const double mean = totals.sum("weight/sum") / targets, square = totals.sum("weight/square") / targets;
  metrics["weights/mean"] = mean;
  metrics["weights/std"] = std::sqrt(std::max(0.0, square - mean * mean));
  metrics["weights/ess"] = square == 0 ? 0.0 : mean * mean / square;
}

std::vector<TokenSample> Trainer::sample() {
  if (!samples_) return {};
  const Phase phase("validation");
  step_runner_.scale_gradients(loss_scale());
  return samples_->take(state_.step);
}

std::map<std::string, double> Trainer::validate() {
  if (!validation_) return {};
  const Phase phase("validation");
  const std::map<std::string, double> metrics = validation_->run(state_.step);
  if (channels_.sections() == 1) return metrics;
  // Rank 0 has the heads. All sections decide by its numbers what to save, so bits matter, and NaN must survive.
  std::string text;
  for (const auto& [name, value] : metrics) text += printed("%s %a\n", name.c_str(), value);
  return parsed_metrics(channels_.peers().broadcast("validating", text));
}

}  // namespace wmtp
