#include "train/trainer.hpp"

#include <chrono>
#include <cmath>

#include "base/error.hpp"
#include "train/schedule.hpp"
#include "train/signals.hpp"

namespace wmtp {
namespace {

MicroStepConfig micro_step_config(const Experiment& e) {
  MicroStepConfig config;
  config.activation_checkpointing = e.parallel.activation_checkpointing;
  config.normalize_by_weights = e.train.normalize == "weights";
  config.gradient_accumulation = e.train.gradient_accumulation;
  config.seed = e.seed;
  config.chunk_tokens = chunk_tokens(e.model.vocab_size);
  return config;
}

}  // namespace

Trainer::Trainer(const Experiment& experiment, int64_t num_steps, ShardedModel& model, PipelineInUse& pipeline,
                 std::unique_ptr<Reference> reference, const BatchSource& training, const BatchSource* validation,
                 int64_t validation_windows, Channels& channels, at::Device device)
    : experiment_(experiment),
      num_steps_(num_steps),
      model_(model),
      pipeline_(pipeline),
      reference_(std::move(reference)),
      training_(training),
      validation_(validation),
      validation_windows_(validation_windows),
      channels_(channels),
      state_{0, 0, Guard(experiment.guard), {}},
      optimizer_(experiment.optimizer, model.trained_groups()),
      across_(channels),
      host_step_({model.num_heads(), experiment.model.vocab_size, experiment.seed}, across_, state_.pipeline),
      micro_step_(model, pipeline, host_step_, channels, micro_step_config(experiment)) {
  if (optimizer_.states().empty())
    throw Error(ExitStatus::plugin, "adapter '" + experiment.adapter.plugin + "' trains no parameter of this model");
}

std::vector<MicroBatch> Trainer::fetch() const {
  std::vector<MicroBatch> micros;
  const int64_t accumulation = experiment_.train.gradient_accumulation;
  for (int64_t a = 0; a < accumulation; ++a)
    micros.push_back(training_.training(state_.step * accumulation + a, channels_.rank(), channels_.size()));
  return micros;
}

StepCounts Trainer::count(const std::vector<MicroBatch>& micros) {
  const size_t heads = size_t(model_.num_heads());
  std::vector<double> mine(heads + 2, 0.0);
  for (const MicroBatch& micro : micros) {
    for (size_t k = 0; k < heads; ++k) mine[k] += double(micro.counts[k]);
    mine[heads] += double(micro.answers);
    mine[heads + 1] += double(micro.pairs);
  }
  const at::Tensor all = channels_.sum(at::tensor(mine, at::kDouble), "counting the step's tokens").contiguous();
  const double* counts = all.const_data_ptr<double>();
  return {{counts, counts + heads}, int64_t(counts[heads]), int64_t(counts[heads + 1])};
}

StepReport Trainer::step() {
  const auto start = std::chrono::steady_clock::now();
  const double waited = waited_seconds();
  const int64_t number = state_.step + 1;
  const std::vector<MicroBatch> micros = fetch();
  const StepCounts counts = count(micros);

  StepTotals totals;
  totals.add("loss", 0.0);
  totals.add("weight/sum", 0.0);
  totals.add("weight/square", 0.0);
  totals.add("fault/not_finite", 0.0);
  totals.add("fault/negative", 0.0);
  for (int64_t k = 1; k <= model_.num_heads(); ++k) totals.add("ce/" + std::to_string(k), 0.0);
  host_step_.begin_step(number, counts, totals);
  for (size_t i = 0; i < micros.size(); ++i) {
    host_step_.begin_micro_batch(micros[i], reference_ ? reference_->losses(micros[i].batch) : at::Tensor());
    micro_step_.run(micros[i], number, counts.targets, i + 1 == micros.size(), totals);
  }
  totals.add("norm/squared", optimizer_.squared_norm());
  totals.add("stop", stop_requested() ? 1.0 : 0.0);
  totals.exchange(channels_);
  refuse_faults(totals);
  micro_step_.forget_weights();

  StepReport report;
  report.step = number;
  report.loss = totals.sum("loss");
  report.stop = totals.sum("stop") > 0;
  const double norm = std::sqrt(totals.sum("norm/squared"));
  report.skipped = state_.guard.judge(report.loss, norm);
  const double lr = learning_rate(experiment_.schedule, experiment_.optimizer.lr, number, num_steps_);
  if (report.skipped.empty()) {
    const double clip = experiment_.train.clip_norm;
    optimizer_.step(lr, clip > 0 ? std::min(1.0, clip / (norm + 1e-6)) : 1.0);  // as torch's clip_grad_norm_
  } else {
    optimizer_.drop_gradients();
  }
  state_.step = number;
  const int64_t step_tokens = channels_.size() * experiment_.train.gradient_accumulation *
                              experiment_.train.batch_size * experiment_.train.sequence_length;
  state_.tokens += step_tokens;

  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  report_metrics(totals, counts.targets, norm, report);
  report.metrics["train/lr"] = lr;
  report.metrics["train/tokens"] = double(state_.tokens);
  report.metrics["perf/step_seconds"] = seconds;
  report.metrics["perf/tokens_per_second"] = double(step_tokens) / seconds;
  report.metrics["perf/communication_exposed"] = waited_seconds() - waited;
  for (const MicroBatch& micro : micros)
    report.sequences.insert(report.sequences.end(), micro.positions.begin(), micro.positions.end());
  return report;
}

void Trainer::refuse_faults(const StepTotals& totals) {
  for (int rank = 0; rank < channels_.size(); ++rank) {
    const double not_finite = totals.of_rank("fault/not_finite", rank),
                 negative = totals.of_rank("fault/negative", rank);
    if (not_finite + negative == 0) continue;
    if (rank == channels_.rank()) micro_step_.refuse_faulty_weights();
    // That rank knows which weight of which sequence it was: its words are everybody's.
    throw channels_.peers().explain("judging the weights of pipeline '" + pipeline_.name + "'",
                                    "rank " + std::to_string(rank) + " returned faulty ones");
  }
}

void Trainer::report_metrics(const StepTotals& totals, const std::vector<int64_t>& counts, double norm,
                             StepReport& report) const {
  auto& metrics = report.metrics;
  metrics["train/loss"] = report.loss;
  metrics["train/grad_norm"] = norm;
  metrics["guard/skipped"] = report.skipped.empty() ? 0 : 1;
  for (const std::string& name : totals.names_with("plugin_sum/")) {
    const double count = totals.sum("plugin_count/" + name);
    metrics[name] = count == 0 ? std::nan("") : totals.sum("plugin_sum/" + name) / count;
  }
  if (pipeline_.objective) return;
  double ce = 0, targets = 0;
  for (int64_t k = 1; k <= model_.num_heads(); ++k) {
    const double count = double(counts[size_t(k - 1)]);
    const double of_head = count == 0 ? 0.0 : totals.sum("ce/" + std::to_string(k)) / count;
    metrics["train/ce_head_" + std::to_string(k)] = of_head;
    ce += of_head / double(model_.num_heads());
    targets += count;
  }
  metrics["train/ce"] = ce;
  const double mean = totals.sum("weight/sum") / targets, square = totals.sum("weight/square") / targets;
  metrics["weights/mean"] = mean;
  metrics["weights/std"] = std::sqrt(std::max(0.0, square - mean * mean));
  metrics["weights/ess"] = square == 0 ? 0.0 : mean * mean / square;
}

std::map<std::string, double> Trainer::validate() {
  if (!validation_) return {};
  const int64_t batch = experiment_.train.batch_size, per_round = batch * channels_.size();
  StepTotals totals;
  std::vector<double> mine(size_t(model_.num_heads()), 0.0);
  for (int64_t first = 0; first < validation_windows_; first += per_round) {
    std::vector<int64_t> positions;
    for (int64_t position = first; position < first + per_round; ++position)
      positions.push_back(position < validation_windows_ ? position : -1);
    const MicroBatch micro = validation_->fetch(positions, channels_.rank(), channels_.size());
    for (size_t k = 0; k < mine.size(); ++k) mine[k] += double(micro.counts[k]);
    micro_step_.evaluate(micro, totals);
  }
  for (size_t k = 0; k < mine.size(); ++k) totals.add("count/" + std::to_string(k + 1), mine[k]);
  totals.exchange(channels_);
  std::map<std::string, double> metrics;
  double mean = 0;
  for (int64_t k = 1; k <= model_.num_heads(); ++k) {
    const std::string head = std::to_string(k);
    const double loss = totals.sum("valid/" + head) / totals.sum("count/" + head);
    metrics["valid/ce_head_" + head] = loss;
    mean += loss / double(model_.num_heads());
  }
  metrics["valid/loss"] = mean;
  return metrics;
}

}  // namespace wmtp
