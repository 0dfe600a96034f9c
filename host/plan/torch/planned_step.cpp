#include "plan/torch/planned_step.hpp"

#include <ATen/Context.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "checkpoint/torch/model_files.hpp"
#include "memory/cached_segments.hpp"
#include "memory/meta_device.hpp"
#include "memory/phase.hpp"
#include "model/model_tensors.hpp"
#include "plugins/torch/signals.hpp"
#include "train/utilization.hpp"

namespace wmtp {
namespace {

/// Of the thread that multiplies, on a card of compute capability 9 or with deterministic products.
constexpr int64_t cublas_workspace = 32 << 20;

/// `experiment`, when nothing of another step is counted any more.
Experiment fresh(Experiment experiment) {
  offloaded_bytes() = {};
  meta_segments().clear();
  meta_segments().allocate(&cublas_workspace, cublas_workspace);
  return experiment;
}

std::vector<ValueHead> stage_value_heads(const Experiment* stage, const OpenParts& open) {
  std::vector<ValueHead> heads;
  if (stage) heads = open(*stage).pipeline.needs.heads;
  if (heads.empty()) heads.push_back({"value", "linear"});
  return heads;
}

/// Batches as large as the longest ones of a run, of sequences whose tokens are all targets. `separate`: rows may hold
/// several documents.
class PlannedBatches final : public BatchSource {
 public:
  PlannedBatches(int64_t batch_size, int64_t sequence_length, int64_t windows, const BatchRequest& request,
                 bool separate)
      : BatchSource(batch_size),
        sequence_length_(sequence_length),
        windows_(windows),
        request_(request),
        separate_(separate) {}

  int64_t count() const override { return std::numeric_limits<int64_t>::max(); }
  int64_t windows() const override { return windows_; }

  MicroBatch fetch(const std::vector<int64_t>& sequences, int64_t rank, int64_t world) const override {
    const int64_t B = int64_t(sequences.size()) / world, S = sequence_length_;
    MicroBatch micro;
    micro.sequences.assign(sequences.begin() + rank * B, sequences.begin() + (rank + 1) * B);
    micro.windows = micro.sequences;
    micro.bins.assign(size_t(B), -1);
    micro.batch = empty_batch(B, S, request_.device);
    micro.targets = at::empty({B, S}, at::TensorOptions(at::kBool).device(request_.device));
    if (separate_) {  // on a CUDA device the most that attention computes one by one
      const int64_t ends = is_cuda(request_.device) ? most_separate_documents(B * S) + 1 : 0;
      micro.documents =
          documents_in(at::empty({B * S + ends}, at::TensorOptions(at::kInt).device(request_.device)), B, S);
    }
    for (const Signal signal : request_.signals)
      micro.signals[to_text(signal)] = at::empty({B, S}, at::TensorOptions(at::kFloat).device(request_.device));
    micro.tokens = micro.answer_tokens = B * S;
    micro.attended_keys = B * S * (request_.window > 0 ? std::min(request_.window, S) : S);
    micro.pairs = request_.pairs ? B / 2 : 0;
    micro.offsets = request_.offsets;
    for (int64_t k = 1; k <= request_.heads; ++k) micro.counts.push_back(B * std::max<int64_t>(S - micro.offset(k), 0));
    return micro;
  }

 private:
  int64_t sequence_length_, windows_;
  BatchRequest request_;
  bool separate_;
};

template <class OnParameter>
void for_each_parameter(const ShardedModel& model, OnParameter on_parameter) {
  for (const UnitSpec& unit : model.whole())
    for (const ParameterSpec& spec : unit.parameters) on_parameter(spec, unit);
}

/// The experiment's steps on one rank.
class MetaStep {
 public:
  MetaStep(const Experiment& experiment, const StepRequest& request, const OpenParts& open, int rank)
      : experiment_(fresh(in_layout(experiment, request))),
        world_({request.ranks, request.hosts, request.on_cuda, request.sections}, rank, timeline_),
        parts_(open(experiment_)) {
    at::globalContext().setDeterministicAlgorithms(request.on_cuda && experiment_.parallel.deterministic,
                                                   /*warn_only=*/false);
    at::globalContext().setDeterministicFillUninitializedMemory(false);
    world_.channels().form_sections(int(experiment_.parallel.pipeline));
    Channels& channels = world_.channels().section_channels();
    channels.share_sequences(int(experiment_.parallel.sequence), int(experiment_.parallel.tensor));
    ShardedModelRequest of_policy = policy_request(experiment_, parts_.pipeline, *parts_.adapter, at::kMeta);
    of_policy.section = section_of(channels);
    model_ = std::make_unique<ShardedModel>(of_policy, channels);
    batches_ = std::make_unique<PlannedBatches>(experiment_.train.batch_size, experiment_.train.sequence_length,
                                                request.windows, batch_request(experiment_, parts_.pipeline, at::kMeta),
                                                experiment_.data.packing);
    constexpr int64_t any_number_of_steps = 1000;
    trainer_ = std::make_unique<Trainer>(experiment_, any_number_of_steps, *model_, parts_.pipeline, frozen(open),
                                         TrainerData{batches_.get(), nullptr, 0}, channels);
    const CheckpointConfig& checkpoint = experiment_.checkpoint;
    if (checkpoint.every_steps > 0 || checkpoint.every_epochs > 0 || checkpoint.every_minutes > 0) copy_state();
  }

  /// A step with each number of micro-batches, after one with the fewest, which creates the optimizer's state.
  RankSteps steps(const std::vector<int64_t>& micro_batches) {
    step(std::ranges::min(micro_batches));
    RankSteps steps;
    for (const int64_t number : micro_batches) {
      reset_memory_peak();
      if (compares_heads_) {  // in a few steps, whose memory must suffice and whose time is not the usual one
        experiment_.log.head_gradients_every = 1;
        step(number);
        experiment_.log.head_gradients_every = 0;
      }
      offloaded_bytes() = {.held = offloaded_bytes().held, .in_file = offloaded_bytes().in_file};
      step(number);
      steps.steps.push_back(last_step());
    }
    steps.collectives = world_.issued();
    return steps;
  }

 private:
  void step(int64_t micro_batches) {
    experiment_.train.gradient_accumulation = micro_batches;
    timeline_.restart();
    set_operation_counter([this](double operations) { timeline_.compute(operations); });
    trainer_->step();
    set_operation_counter(nullptr);
  }

  RankSteps::Step last_step() {
    StepTimeline timeline = timeline_;  // without what saving adds
    PlannedStep step;
    step.counts = counts();
    step.token_heads = model_->num_heads();
    step.work = timeline.counted();
    const OffloadedBytes& bytes = offloaded_bytes();
    step.offloaded = {bytes.held, bytes.to_device, bytes.to_host, bytes.in_file, bytes.from_file, bytes.to_file};
    const TrainConfig& train = experiment_.train;
    const int64_t sequences = train.batch_size * train.gradient_accumulation, window = experiment_.model.sliding_window,
                  keys = window > 0 ? std::min(window, train.sequence_length) : train.sequence_length;
    const double needed = step_operations(*model_).operations(sequences * train.sequence_length,
                                                              sequences * train.sequence_length * keys) /
                          double(ranks_per_sequence(experiment_.parallel) * experiment_.parallel.pipeline);
    step.work.extra = step.work.operations - needed;
    save();
    step.phases = memory_usage().phases;
    step.phases.erase("start");
    if (is_cuda(at::kMeta)) step.reserved = meta_segments().reserved();
    return {std::move(step), std::move(timeline)};
  }

  FrozenCaches frozen(const OpenParts& open) {
    FrozenCaches opened;
    if (!model_->section().is_last()) return opened;
    for (const auto& [table, wanted] : parts_.pipeline.frozen) {
      const FrozenConfig& config = frozen_config(experiment_, table);
      const ModelConfig& shape = frozen_shape(table, config);
      const FrozenHeads heads = frozen_heads(table, config, open);
      const auto model = frozen_model(table, config, shape, heads);
      opened.training.push_back(std::make_unique<FrozenCache>(
          table, wanted, [model] { return model; }, FrozenCache::Stores{}, std::max<int64_t>(heads.token_heads, 1)));
    }
    return opened;
  }

  /// The policy's if it is known only from weights.
  const ModelConfig& frozen_shape(const std::string& table, const FrozenConfig& config) const {
    const Experiment* const stage = experiment_.stage(table);
    return config.model ? *config.model : stage ? stage->model : experiment_.model;
  }

  /// With `auto` a reference's next-token head: StepPlanner replaces it where the weights have more.
  FrozenHeads frozen_heads(const std::string& table, const FrozenConfig& config, const OpenParts& open) const {
    if (table == "value") return {0, stage_value_heads(experiment_.stage(table), open)};
    return {config.heads == ReferenceHeads::own ? experiment_.model.future_tokens : 1};
  }

  std::shared_ptr<FrozenModel> frozen_model(const std::string& table, const FrozenConfig& config,
                                            const ModelConfig& shape, const FrozenHeads& heads) {
    auto model = std::make_unique<ShardedModel>(frozen_request(experiment_, config, shape, heads, at::kMeta),
                                                world_.channels().section_channels());
    for_each_parameter(*model, [&](const ParameterSpec& spec, const UnitSpec&) { frozen_[table] += spec.count(); });
    return std::make_shared<FrozenModel>(std::move(model), chunk_tokens(shape.vocab_size, is_cuda(at::kMeta)));
  }

  ParameterCounts counts() const {
    ParameterCounts counts;
    counts.frozen = frozen_;
    for_each_parameter(*model_, [&](const ParameterSpec& spec, const UnitSpec& unit) {
      counts.parameters += spec.count();
      if (unit.name != adapter_unit_name) counts.model += spec.count();
      if (!spec.trains) return;
      counts.trained += spec.count();
      counts.state += spec.count() * int64_t(trainer_->optimizer().saved_prefixes(spec).size());
    });
    return counts;
  }

  /// The copies from which checkpoints are written in the background; those of a device are in host memory.
  void copy_state() {
    const MemoryScope scope(MemoryCategory::checkpoint);
    const bool on_host = !is_cuda(model_->compute().device());
    for (const ShardedOptimizer::State& state : trainer_->optimizer().states()) {
      if (!state.group->is_first_replica()) continue;  // another rank copies it
      for (const auto& [prefix, flat] : state.whole().flats())
        if (state.group->is_in_host_memory())
          copies_.push_back(host_zeros(flat.numel(), flat.scalar_type(), state.group->device()));
        else if (on_host)
          copies_.push_back(at::empty_like(flat));
    }
    if (auto& losses = trainer_->state().previous_losses; losses && world_.channels().rank() == 0)
      copies_.push_back(at::empty_like(losses->table()));
  }

  /// Saves the final model without writing it.
  void save() {
    const Phase phase("checkpoint");
    const auto unwritten = [](const ParameterSpec&, const at::Tensor&) {};
    const bool writes = world_.channels().rank() == 0;
    const auto failure = for_each_saved_tensor(*model_, parts_.adapter.get(), writes ? VisitSaved(unwritten) : nullptr);
    if (failure) throw *failure;
  }

  Experiment experiment_;
  const bool compares_heads_ = experiment_.log.head_gradients_every > 0;
  StepTimeline timeline_;
  PlannedWorld world_;
  StepParts parts_;
  std::map<std::string, int64_t> frozen_;  ///< parameters, by table
  std::unique_ptr<ShardedModel> model_;
  std::unique_ptr<BatchSource> batches_;
  std::unique_ptr<Trainer> trainer_;
  std::vector<at::Tensor> copies_;
};

/// one + times * (two - one)
template <class Number>
Number extrapolate(Number one, Number two, int64_t times) {
  return one + Number(times) * (two - one);
}

/// A step from one with a few micro-batches and one with one more, `times` that difference after the first: every
/// further micro-batch adds the same.
PlannedStep extrapolated(const PlannedStep& few, const PlannedStep& more, int64_t times) {
  PlannedStep step = more;
  for (auto& [name, phase] : step.phases) {
    const MemorySnapshot& with_few = few.phases.at(name);
    for (size_t i = 0; i < phase.bytes.size(); ++i)
      phase.bytes[i] = extrapolate(with_few.bytes[i], phase.bytes[i], times);
    phase.total = extrapolate(with_few.total, phase.total, times);
  }
  // Segments do not grow evenly; what further micro-batches keep is added to those that are held after `more`.
  if (step.reserved > 0)
    step.reserved += highest_phase(step.phases)->second.total - highest_phase(more.phases)->second.total;
  const auto extend = [&](auto RankWork::*number) {
    step.work.*number = extrapolate(few.work.*number, more.work.*number, times);
  };
  extend(&RankWork::seconds);
  extend(&RankWork::at_borders);
  extend(&RankWork::operations);
  extend(&RankWork::extra);
  step.work.traffic = {extrapolate(few.work.traffic.bus, more.work.traffic.bus, times),
                       extrapolate(few.work.traffic.network, more.work.traffic.network, times)};
  step.offloaded.to_device = extrapolate(few.offloaded.to_device, more.offloaded.to_device, times);
  step.offloaded.to_host = extrapolate(few.offloaded.to_host, more.offloaded.to_host, times);
  return step;
}

/// What one more micro-batch adds.
RankWork difference(const RankWork& few, const RankWork& more) {
  return {more.seconds - few.seconds, more.at_borders - few.at_borders, 0, 0, {}};
}

/// Of the slowest rank of a section.
struct SectionWork {
  double seconds = 0, micro_batch = 0, border = 0;  ///< micro_batch: one, without the exchanges at its borders
  double operations = 0;
  auto operator<=>(const SectionWork&) const = default;
};

SectionWork work_of(const PlannedRank& rank) {
  const RankWork& one = rank.micro_batch;
  return {rank.step.work.seconds, one.seconds - one.at_borders, one.at_borders, rank.step.work.operations};
}

/// All `count` sections of a step, of which some were planned; one that was not is like section 1.
std::vector<SectionWork> all_sections(const std::map<int64_t, SectionWork>& planned, int64_t count) {
  std::vector<SectionWork> all;
  for (int64_t section = 0; section < count; ++section)
    all.push_back(planned.at(planned.contains(section) ? section : 1));
  return all;
}

/// The slowest section does not wait between its first micro-batch and its last. Before and after, one micro-batch
/// passes through each other section, and twice over each border between those.
double seconds_of_sections(const std::vector<SectionWork>& sections) {
  const auto slowest = std::ranges::max_element(sections);
  double seconds = slowest->seconds - slowest->border;  // its own borders are part of its step
  for (auto other = sections.begin(); other != sections.end(); ++other)
    if (other != slowest) seconds += other->micro_batch + other->border;
  return seconds;
}

/// The most operations of a section over the mean of all.
double imbalance_of(const std::vector<SectionWork>& sections) {
  double most = 0, sum = 0;
  for (const SectionWork& section : sections) {
    most = std::max(most, section.operations);
    sum += section.operations;
  }
  return sum > 0 ? most * double(sections.size()) / sum : 1;
}

/// Ranks that, with rank 0, hold the most of anything; to compare ranks, also its neighbours along each axis and the
/// last rank, in sections that are neighbours.
std::set<int64_t> ranks_to_plan(const Experiment& experiment, const StepRequest& request) {
  const int64_t of_section = request.ranks / request.sections;
  std::set<int64_t> ranks;
  // Counted from the last section, of rank 0, which has the heads: the next one has the most blocks, the first section
  // of the model the most micro-batches in flight.
  for (int64_t section = 1; section < request.sections; ++section)
    if (request.compare_ranks || section == 1 || section == request.sections - 1) ranks.insert(section * of_section);
  const int64_t same_sequences = request.sequence_ranks * request.tensor_ranks;
  if (same_sequences > 1) ranks.insert(of_section - 1);
  if (traits_of(experiment.optimizer.kind).orthogonalizes) ranks.insert(request.ranks - 1);
  if (!request.compare_ranks) return ranks;
  for (const int64_t section : {int64_t{0}, int64_t{1}, request.sections - 1})
    for (const int64_t rank : {int64_t{1}, request.tensor_ranks, same_sequences - 1, same_sequences,
                               request.shard_group_size, of_section - 1})
      if (rank < of_section) ranks.insert(section * of_section + rank);
  return ranks;
}

}  // namespace

Experiment in_layout(Experiment experiment, const StepRequest& request) {
  ParallelConfig& parallel = experiment.parallel;
  parallel.strategy = request.strategy;
  parallel.shard_group_size = request.shard_group_size;
  parallel.processes = request.ranks;
  parallel.sequence = request.sequence_ranks;
  parallel.tensor = request.tensor_ranks;
  parallel.pipeline = request.sections;
  parallel.activation_checkpointing = request.activation_checkpointing;
  parallel.activation_offload = request.activation_offload;
  parallel.cpu_offload = request.offload;
  TrainConfig& train = experiment.train;
  train.batch_size = request.sequences_per_rank;
  train.sequence_length = request.sequence_length;
  train.gradient_accumulation = request.gradient_accumulation;
  train.global_batch_size = 0;
  if (request.trains_all) {
    experiment.adapter = Experiment().adapter;
    experiment.trained_parts = {};
  }
  return experiment;
}

PlannedRank plan_rank(const Experiment& experiment, const StepRequest& request, const OpenParts& open, int rank,
                      KnownSteps& known) {
  // As many micro-batches are in flight as sections follow, and one. With one more, a backward pass has ended before
  // the last forward pass, and each further one adds the same. Ranks that are compared run the same number.
  const int64_t sections_after =
      request.compare_ranks ? request.sections - 1 : rank / (request.ranks / request.sections);
  const int64_t few = sections_after + 2;
  const bool extrapolates = request.gradient_accumulation > few + 1;
  std::vector<int64_t> micro_batches{extrapolates ? few + 1 : request.gradient_accumulation};
  if (extrapolates) micro_batches.push_back(few);
  if (!extrapolates && request.sections > 1 && request.rates) micro_batches.push_back(micro_batches.front() + 1);
  StepRequest untimed = request;
  untimed.rates.reset();
  untimed.compare_ranks = false;
  untimed.gradient_accumulation = micro_batches.front();
  const std::string key = Json({untimed, rank, micro_batches}).dump();
  auto found = known.find(key);
  if (found == known.end())
    found = known.emplace(key, MetaStep(experiment, untimed, open, rank).steps(micro_batches)).first;
  const RankSteps& ran = found->second;

  const auto timed = [&](const RankSteps::Step& one) {
    PlannedStep step = one.step;
    if (request.rates) one.timeline.time(step.work, *request.rates);
    return step;
  };
  PlannedRank planned{timed(ran.steps.front()), ran.collectives, {}};
  if (micro_batches.size() == 1) return planned;
  const PlannedStep other = timed(ran.steps.back());
  if (extrapolates) {
    planned.micro_batch = difference(other.work, planned.step.work);
    planned.step = extrapolated(other, planned.step, request.gradient_accumulation - few);
  } else {
    planned.micro_batch = difference(planned.step.work, other.work);
  }
  return planned;
}

PlannedStep plan_step(const Experiment& experiment, const StepRequest& request, const OpenParts& open,
                      KnownSteps& known) {
  const int64_t of_section = request.ranks / request.sections;
  PlannedRank first = plan_rank(experiment, request, open, 0, known);
  std::map<int, IssuedCollectives> issued{{0, std::move(first.collectives)}};
  std::map<int64_t, SectionWork> planned{{0, work_of(first)}};
  for (const int64_t rank : ranks_to_plan(experiment, request)) {
    if (rank < 1 || rank >= request.ranks) continue;
    PlannedRank other = plan_rank(experiment, request, open, int(rank), known);
    for (const auto& [name, phase] : other.step.phases) {
      MemorySnapshot& most = first.step.phases[name];
      if (phase.total > most.total) most = phase;
    }
    first.step.reserved = std::max(first.step.reserved, other.step.reserved);
    SectionWork& section = planned[rank / of_section];
    section = std::max(section, work_of(other));
    issued[int(rank)] = std::move(other.collectives);
  }
  const std::string difference = request.compare_ranks ? first_disagreement(issued) : "";
  if (!difference.empty())
    throw Error(ExitStatus::bug, "ranks would wait for each other forever, because they call different collectives: " +
                                     difference + "; every rank must call the same ones, in the same order");
  const std::vector<SectionWork> sections = all_sections(planned, request.sections);
  first.step.work.seconds = seconds_of_sections(sections);
  first.step.imbalance = imbalance_of(sections);
  return std::move(first.step);
}

}  // namespace wmtp
