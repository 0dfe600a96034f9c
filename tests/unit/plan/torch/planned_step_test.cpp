// The planned step against a run: the memory of one rank, byte for byte, phase by phase and category by category; the
// operations of a step; and the bytes that ranks exchange.
#include <gmock/gmock.h>

#include <atomic>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "base/error.hpp"
#include "checkpoint/torch/model_files.hpp"
#include "memory/phase.hpp"
#include "plan/torch/planned.hpp"
#include "support/ranks.hpp"
#include "support/temporary_folder.hpp"
#include "support/tiny_training.hpp"
#include "train/utilization.hpp"

namespace wmtp {
namespace {

using test::AnyStep;
using test::baseline;
using test::Everything;
using test::tiny_experiment;
using test::TinyTraining;
using test::Weigh;

/// Trains two matrices next to each attention weight, as LoRA does.
class LowRank : public LinearAdapter {
 public:
  bool trains(const std::string&) const override { return false; }
  std::vector<Param> declare(const Linear& layer) const override {
    if (layer.name.find(".attention.") == std::string::npos) return {};
    return {{"a", {8, layer.in}, Param::Init::uniform, 0.1}, {"b", {layer.out, 8}}};
  }
  at::Tensor forward(const Linear&, const at::Tensor& x, LinearCall& call) const override {
    return call.base(x) + call.linear(call.linear(x, "a"), "b");
  }
  Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>& params) const override {
    return weight + params[1].mm(params[0]);
  }
};

/// Trains the heads of the second and later tokens.
class LaterHeads : public Adapter {
 public:
  bool trains(const std::string& name) const override { return name.starts_with("extra_heads."); }
};

/// Large enough that scalars and indices are small compared with the planned tensors.
Experiment small_experiment() {
  Experiment e = tiny_experiment();
  e.model.dim = 128;
  e.model.layers = 6;
  e.model.heads = e.model.kv_heads = 4;
  e.model.ffn_dim = 352;
  e.model.vocab_size = 2048;
  e.train.batch_size = 4;
  e.train.sequence_length = 128;
  return e;
}

using test::planned;
using test::TestPlan;
using Make = std::function<std::unique_ptr<Weighting>()>;

TestPlan plan_of(const Experiment& e, const Make& weighting) {
  TestPlan plan;
  plan.experiment = e;
  plan.weighting = weighting;
  plan.strategy = e.parallel.strategy;
  plan.shard_group_size = e.parallel.shard_group_size;
  plan.ranks = e.parallel.processes;
  plan.sequence_ranks = e.parallel.sequence;
  plan.tensor_ranks = e.parallel.tensor;
  plan.sections = e.parallel.pipeline;
  plan.sequences_per_rank = e.train.batch_size;
  plan.sequence_length = e.train.sequence_length;
  plan.gradient_accumulation = e.train.gradient_accumulation;
  plan.activation_checkpointing = e.parallel.activation_checkpointing;
  return plan;
}

/// What the phases of the second step hold, and that of saving the model.
std::map<std::string, MemorySnapshot> phases_of_run(const Experiment& e, const Adapter& adapter,
                                                    const Make& weighting) {
  install_allocator();
  install_meta_device(at::kCPU);
  SingleRank rank;
  const MemoryUsage before = memory_usage();
  TinyTraining training(e, weighting(), rank.channels, {.adapter = &adapter});
  training->step();
  reset_memory_peak();
  training->step();
  {
    const test::TemporaryFolder folder;
    const Phase phase("checkpoint");
    save_model(folder.path() / "model", /*step=*/2, /*config_hash=*/"", training.model(), &adapter, {});
  }
  return test::phases_since(before);
}

/// `tolerance`: bytes.
template <class AdapterType = Everything>
void expect_planned(const Experiment& e, const Make& weighting = baseline, int64_t tolerance = 0) {
  const AdapterType adapter;
  const auto found = phases_of_run(e, adapter, weighting);
  TestPlan plan = plan_of(e, weighting);
  plan.adapter = [] { return std::make_unique<AdapterType>(); };
  const auto expected = planned(plan).phases;
  for (const char* name : {"forward", "backward", "optimizer", "checkpoint"}) ASSERT_TRUE(found.contains(name)) << name;
  for (const auto& [name, phase] : found) {
    ASSERT_TRUE(expected.contains(name)) << name;
    EXPECT_NEAR(double(expected.at(name).total), double(phase.total), double(tolerance)) << name;
    for (size_t i = 0; i < num_memory_categories; ++i)
      EXPECT_NEAR(double(expected.at(name).bytes[i]), double(phase.bytes[i]), double(tolerance))
          << name << ", " << to_string(MemoryCategory(i));
  }
}

/// What LibTorch's own operators may hold beside their results, in losses in fp16 and in checks of weights.
int64_t a_number_per_token(const Experiment& e) { return 4 * e.train.batch_size * e.train.sequence_length; }

TEST(MemoryPlan, MatchesFullTraining) { expect_planned(small_experiment()); }

TEST(MemoryPlan, MatchesBf16) {
  Experiment e = small_experiment();
  e.parallel.precision = Precision::bf16;
  expect_planned(e);
}

TEST(MemoryPlan, MatchesHeadsThatAreNotDifferentiated) {
  Experiment e = small_experiment();
  expect_planned<LaterHeads>(e);
  for (const FutureHeads kind : {FutureHeads::chained, FutureHeads::shared}) {
    e.model.future_heads = kind;
    expect_planned<LaterHeads>(e);
  }
}

TEST(MemoryPlan, MatchesActivationCheckpointing) {
  Experiment e = small_experiment();
  e.parallel.activation_checkpointing = 1;
  expect_planned(e);
}

TEST(MemoryPlan, MatchesCheckpointingOfHalfTheBlocks) {
  Experiment e = small_experiment();
  e.parallel.activation_checkpointing = 0.5;
  expect_planned(e);
}

TEST(MemoryPlan, MatchesGroupedQueriesAndWideFeedForward) {
  Experiment e = small_experiment();
  e.model.kv_heads = 1;
  e.model.ffn_dim = 700;
  expect_planned(e);
}

TEST(MemoryPlan, MatchesBiasesAndNormedHeadsOfTheirOwnWidth) {
  Experiment e = small_experiment();
  e.model.qkv_bias = e.model.o_bias = e.model.qk_norm = true;
  e.model.head_dim = 64;
  e.model.sliding_window = 50;
  expect_planned(e);
}

TEST(MemoryPlan, MatchesNormsAfterAndJointNormsOfQueriesAndKeys) {
  Experiment e = small_experiment();
  e.model.joint_qk_norm = e.model.post_norm = true;
  expect_planned(e);
}

TEST(MemoryPlan, MatchesMultipliers) {
  Experiment e = small_experiment();
  e.model.embedding_multiplier = 12;
  e.model.attention_multiplier = 0.1;
  e.model.residual_multiplier = 0.22;
  e.model.logits_scaling = 8;
  expect_planned(e);
}

TEST(MemoryPlan, MatchesBlocksWithoutPositions) {
  Experiment e = small_experiment();
  e.model.no_rope_layer_interval = 2;
  expect_planned(e);
}

TEST(MemoryPlan, MatchesLongSequences) {
  Experiment e = small_experiment();
  e.train.batch_size = 1;
  e.train.sequence_length = 1000;
  expect_planned(e);
}

TEST(MemoryPlan, MatchesGradientAccumulation) {
  Experiment e = small_experiment();
  e.train.gradient_accumulation = 3;
  expect_planned(e);
}

TEST(MemoryPlan, MatchesMuonWithAMovingAverage) {
  Experiment e = small_experiment();
  e.optimizer.kind = OptimizerKind::muon;
  e.train.ema = 0.9;
  expect_planned(e);
}

TEST(MemoryPlan, MatchesSgd) {
  Experiment e = small_experiment();
  e.optimizer.kind = OptimizerKind::sgd;
  expect_planned(e);
}

/// With the optimizer's state in a file.
Experiment in_file(Experiment e, const test::TemporaryFolder& folder) {
  e.parallel.optimizer_offload = OptimizerOffload::nvme;
  e.parallel.offload_path = folder.path().string();
  return e;
}

TEST(MemoryPlan, MatchesAnOptimizersStateInAFile) {
  const test::TemporaryFolder folder;
  Experiment e = in_file(small_experiment(), folder);
  expect_planned(e);
  expect_planned<LowRank>(e);
  e.train.ema = 0.9;
  e.parallel.precision = Precision::bf16;
  expect_planned(e);
  expect_planned<LowRank>(e);
  e.optimizer.kind = OptimizerKind::sgd;
  e.train.gradient_accumulation = 2;
  for (const double momentum : {0.9, 0.0}) {
    e.optimizer.momentum = momentum;
    expect_planned(e);
  }
}

TEST(MemoryPlan, CountsTheFileThatTheOptimizersStateIsIn) {
  const test::TemporaryFolder folder;
  Experiment e = small_experiment();
  e.train.ema = 0.9;
  const PlannedStep without = planned(plan_of(e, baseline)), with = planned(plan_of(in_file(e, folder), baseline));
  EXPECT_EQ(without.offloaded.file, 0);
  EXPECT_GE(with.offloaded.file, 4 * 3 * with.counts.trained);
  EXPECT_LT(with.offloaded.file, 4 * 3 * with.counts.trained * 11 / 10) << "rounded up to pages";
  EXPECT_EQ(with.offloaded.from_file, with.offloaded.file);
  EXPECT_EQ(with.offloaded.to_file, with.offloaded.file);
  EXPECT_EQ(with.offloaded.host, 0);
  EXPECT_EQ(with.counts.state, without.counts.state) << "a checkpoint contains the same";
  const auto kept = [](const PlannedStep& step) {
    return step.phases.at("forward").bytes[size_t(MemoryCategory::optimizer)];
  };
  EXPECT_LT(kept(with), kept(without));
}

TEST(MemoryPlan, CountsMastersOf16BitWeightsInTheFile) {
  const test::TemporaryFolder folder;
  Experiment e = small_experiment();
  e.parallel.precision = Precision::bf16;
  const PlannedStep without = planned(plan_of(e, baseline)), with = planned(plan_of(in_file(e, folder), baseline));
  EXPECT_GE(with.offloaded.file, 4 * 3 * with.counts.trained) << "masters and two moments";
  EXPECT_LT(with.offloaded.file, 4 * 3 * with.counts.trained * 11 / 10) << "rounded up to pages";
  EXPECT_EQ(with.offloaded.from_file, with.offloaded.file);
  EXPECT_EQ(with.offloaded.to_file, with.offloaded.file);
  const auto parameters = [](const PlannedStep& step) {
    return step.phases.at("forward").bytes[size_t(MemoryCategory::parameters)];
  };
  EXPECT_EQ(2 * parameters(with), parameters(without)) << "a copy in 16 bits in place of the masters";
}

TEST(MemoryPlan, MatchesAnAdapterOnFrozenWeights) { expect_planned<LowRank>(small_experiment()); }

TEST(MemoryPlan, MatchesAWeightingThatNeedsLossesFirst) {
  const auto all = [](AnyStep step) { return Weights::by_source(step.valid().to(at::kFloat)); };
  const Experiment e = small_experiment();
  for (const When when : {When::before, When::token, When::head, When::all})
    expect_planned(
        e, [&] { return std::make_unique<Weigh>(Needs{.when = when}, all); }, a_number_per_token(e));
}

TEST(MemoryPlan, MatchesAWeightingThatReadsTheOrderOfLogits) {
  const auto read = [](AnyStep step) {
    return Weights::by_source(step.get(Signal::policy_top_mass) + step.get(Signal::policy_agreement));
  };
  const Experiment e = small_experiment();
  for (const When when : {When::token, When::head, When::all})
    expect_planned(
        e,
        [&] {
          return std::make_unique<Weigh>(
              Needs{.when = when, .reads = {Signal::policy_top_mass, Signal::policy_agreement}, .top_k = 5}, read);
        },
        a_number_per_token(e));
}

TEST(MemoryPlan, MatchesAWeightingThatReadsHowHeadsAlign) {
  const auto read = [](AnyStep step) {
    return Weights::by_source(1 + step.get(Signal::policy_alignment).clamp_max(0));
  };
  Experiment e = small_experiment();
  for (const FutureHeads kind : {FutureHeads::parallel, FutureHeads::chained, FutureHeads::shared})
    for (const When when : {When::token, When::before}) {
      e.model.future_heads = kind;
      expect_planned(
          e, [&] { return std::make_unique<Weigh>(Needs{.when = when, .reads = {Signal::policy_alignment}}, read); },
          a_number_per_token(e));
    }
}

/// Three quarters of the tokens, as their weighting states.
std::unique_ptr<Weighting> keeps_three_quarters() {
  return std::make_unique<Weigh>(Needs{.when = When::head, .reads = {Signal::reference_loss}}, [](AnyStep step) {
    const Tensor kept =
        (at::arange(step.valid().numel(), step.valid().options().dtype(at::kLong)) % 4 > 0).view_as(step.valid());
    return Weights::by_source((kept & step.valid()).to(at::kFloat), 0.75);
  });
}

TEST(MemoryPlan, MatchesASelectionOfAShareWithAReference) {
  Experiment e = small_experiment();
  e.train.sequence_length = 129;  // 128 sources of the first head, of which 96 are kept in each row
  e.model.future_tokens = 1;
  e.model.layers = 3;
  expect_planned(e, keeps_three_quarters);
}

TEST(MemoryPlan, MatchesAReferenceWhoseOwnHeadsAreRead) {
  Experiment e = small_experiment();
  e.reference.heads = ReferenceHeads::own;
  e.train.sequence_length = 129;
  for (const FutureHeads kind : {FutureHeads::parallel, FutureHeads::chained, FutureHeads::shared}) {
    e.model.future_heads = kind;
    expect_planned(e, keeps_three_quarters, a_number_per_token(e));
  }
}

TEST(MemoryPlan, MatchesHeadsThatLeap) {
  Experiment e = small_experiment();
  e.model.future_offsets = {1, 3, 9, 20};
  expect_planned(e);
  e.train.sequence_length = 129;
  expect_planned(e, keeps_three_quarters);
}

TEST(MemoryPlan, MatchesFp16) {
  Experiment e = small_experiment();
  e.parallel.precision = Precision::fp16;
  e.parallel.activation_checkpointing = 1;
  expect_planned(e, baseline, a_number_per_token(e));
}

TEST(MemoryPlan, MatchesLogitsInManyChunks) {
  Experiment e = small_experiment();
  e.model.vocab_size = 30000;
  expect_planned(e);
}

/// Without repetition a step multiplies what perf/mfu counts, except for the output layer at positions without a
/// target, for which there are `left_out` products of a row of the sequence.
template <class AdapterType>
void expect_operations(const Experiment& e, int64_t left_out) {
  const AdapterType adapter;
  SingleRank rank;
  TinyTraining training(e, baseline(), rank.channels, {.adapter = &adapter});
  const int64_t window = e.model.sliding_window, B = e.train.batch_size, S = e.train.sequence_length,
                keys = window > 0 ? std::min(window, S) : S;
  TestPlan plan = plan_of(e, baseline);
  plan.adapter = [] { return std::make_unique<AdapterType>(); };
  EXPECT_DOUBLE_EQ(planned(plan).work.operations + double(left_out * B * 2 * e.model.vocab_size * e.model.dim),
                   step_operations(training.model()).operations(B * S, B * S * keys));
}

TEST(Reserved, IsThatOfEachPlannedStepAlone) {
  TestPlan plan = test::small_plan();
  EXPECT_EQ(planned(plan).reserved, 0) << "on the CPU";
  plan.on_cuda = true;
  const PlannedStep step = planned(plan);
  EXPECT_GT(step.reserved, highest_phase(step.phases)->second.total + (int64_t{32} << 20))
      << "with the workspace of cuBLAS";
  EXPECT_EQ(planned(plan).reserved, step.reserved);
}

TEST(Reserved, GrowsByWhatFurtherMicroBatchesKeep) {
  TestPlan plan = test::small_plan();
  plan.on_cuda = true;
  plan.gradient_accumulation = 3;
  const PlannedStep three = planned(plan);
  plan.gradient_accumulation = 1000;
  const PlannedStep thousand = planned(plan);
  const int64_t kept = highest_phase(thousand.phases)->second.total - highest_phase(three.phases)->second.total;
  EXPECT_GE(kept, 0);
  EXPECT_EQ(thousand.reserved, three.reserved + kept);
}

TEST(PlannedOperations, AreThoseOfTheUtilization) {
  expect_operations<Everything>(small_experiment(), 3 * (1 + 2 + 3));
  expect_operations<LowRank>(small_experiment(), 2 * (1 + 2 + 3));
  expect_operations<LaterHeads>(small_experiment(), 1 + 2 * (2 + 3));
  Experiment e = small_experiment();
  e.model.kv_heads = 2;
  e.model.sliding_window = 50;
  expect_operations<Everything>(e, 3 * (1 + 2 + 3));
}

TEST(PlannedOperations, OfAWeightingThatReadsHowHeadsAlignAreAPassThroughTheHeadsMore) {
  const Experiment e = small_experiment();
  const auto operations = [&](std::vector<Signal> reads) {
    const auto uniform = [](AnyStep) { return Weights::uniform(); };
    return planned(plan_of(e, [&] { return std::make_unique<Weigh>(Needs{.reads = reads}, uniform); })).work.operations;
  };
  const int64_t B = e.train.batch_size, S = e.train.sequence_length, D = e.model.dim, H = e.model.future_tokens,
                weights = 4 * D * D + 3 * D * e.model.ffn_dim;  // of a block, for 2 operations forward and 2 backward
  const int64_t targets = B * (H * S - H * (H + 1) / 2);
  EXPECT_DOUBLE_EQ(operations({Signal::policy_alignment}) - operations({}),
                   double(H * (B * S * 4 * weights + B * S * S * 12 * D) + targets * 4 * D * e.model.vocab_size));
}

/// Two sections on two hosts, whose ranks compute 1e9 operations in a second. The heads' section is the slower one.
TestPlan two_sections(int64_t micro_batches) {
  TestPlan plan = test::small_plan();
  plan.ranks = plan.hosts = plan.sections = 2;
  plan.strategy = plan.experiment.parallel.strategy = Strategy::shard_grad_op;
  plan.gradient_accumulation = micro_batches;
  plan.rates = Rates{.operations = 1e9};
  return plan;
}

TEST(PlannedSeconds, OfAPipelineAreItsSlowestSectionAndOneMicroBatchOfTheOther) {
  for (const int64_t micro_batches : {1, 2, 3, 8}) {
    const TestPlan plan = two_sections(micro_batches);
    const double heads = planned(plan, 0).work.operations / 1e9, trunk = planned(plan, 1).work.operations / 1e9;
    ASSERT_GT(heads, 1.2 * trunk);
    const PlannedStep step = planned(plan);
    EXPECT_NEAR(step.work.seconds, heads + trunk / double(micro_batches), 1e-9 * heads) << micro_batches;
    EXPECT_NEAR(step.imbalance, 2 * heads / (heads + trunk), 1e-9) << micro_batches;
  }
}

TEST(PlannedSeconds, OfABorderAreOneExchangeMoreThanMicroBatches) {
  for (const int64_t micro_batches : {1, 2, 8}) {
    TestPlan plan = two_sections(micro_batches);
    const double computed = planned(plan).work.seconds;
    plan.rates->network = 1e6;
    const double exchange =
        double(plan.sequences_per_rank * plan.sequence_length * plan.experiment.model.dim) * sizeof(float) / 1e6;
    EXPECT_NEAR(planned(plan).work.seconds - computed, double(micro_batches + 1) * exchange, 1e-9) << micro_batches;
  }
}

/// Counts the bytes that come from other ranks.
class CountingBackend final : public c10d::Backend {
 public:
  CountingBackend(c10::intrusive_ptr<c10d::Backend> backend, std::atomic<int64_t>& received)
      : Backend(backend->getRank(), backend->getSize()), backend_(std::move(backend)), received_(received) {}
  const std::string getBackendName() const override { return "counting"; }
  void setTimeout(std::chrono::milliseconds timeout) override { backend_->setTimeout(timeout); }
  void abort() override { backend_->abort(); }
  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions& options) override {
    count(output);
    return backend_->_allgather_base(output, input, options);
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input,
                                               std::vector<int64_t>& output_sizes, std::vector<int64_t>& input_sizes,
                                               const c10d::AllToAllOptions& options) override {
    count(output);
    return backend_->alltoall_base(output, input, output_sizes, input_sizes, options);
  }

 private:
  void count(const at::Tensor& output) { received_ += int64_t(output.nbytes()) / size_ * (size_ - 1); }
  c10::intrusive_ptr<c10d::Backend> backend_;
  std::atomic<int64_t>& received_;
};

/// The bytes that a rank receives in a step of four ranks.
int64_t received(const Experiment& e) {
  std::atomic<int64_t> bytes = 0;
  const MakeBackend memory = shared_memory_or(gloo("127.0.0.1"));
  const MakeBackend counting = [&](const auto& store, const RankAxis& axis, std::chrono::milliseconds timeout) {
    return c10::make_intrusive<CountingBackend>(memory(store, axis, timeout), bytes);
  };
  const auto train = [&](Channels& all) {
    all.form_sections(int(e.parallel.pipeline));
    Channels& channels = all.section_channels();
    channels.share_sequences(int(e.parallel.sequence), int(e.parallel.tensor));
    TinyTraining training(e, baseline(), channels);
    training->step();
  };
  test::on_ranks(4, train, counting);
  return bytes / 4;
}

/// The mean over the ranks: Muon updates more matrices on some.
double planned_traffic(const Experiment& e) {
  double sum = 0;
  for (int rank = 0; rank < 4; ++rank) sum += planned(plan_of(e, baseline), rank).work.traffic.bus;
  return sum / 4;
}

TEST(PlannedTraffic, IsWhatRanksExchange) {
  for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_optimizer, Strategy::shard_grad_op,
                                  Strategy::full_shard, Strategy::hybrid_shard}) {
    Experiment e = tiny_experiment();
    e.parallel.strategy = strategy;
    e.parallel.precision = e.parallel.reduce = Precision::bf16;
    e.parallel.processes = 4;
    e.parallel.shard_group_size = strategy == Strategy::hybrid_shard ? 2 : 0;
    e.parallel.activation_checkpointing = 1;
    e.train.gradient_accumulation = 4;
    EXPECT_EQ(planned_traffic(e), received(e)) << to_string(strategy);
    Experiment muon = e;
    muon.optimizer.kind = OptimizerKind::muon;
    EXPECT_EQ(planned_traffic(muon), received(muon)) << to_string(strategy) << ", Muon";
    e.parallel.sequence = 2;
    EXPECT_EQ(planned_traffic(e), received(e)) << to_string(strategy) << ", divided positions";
    std::swap(e.parallel.sequence, e.parallel.tensor);
    EXPECT_EQ(planned_traffic(e), received(e)) << to_string(strategy) << ", divided features";
    std::swap(e.parallel.tensor, e.parallel.pipeline);
    EXPECT_EQ(planned_traffic(e), received(e)) << to_string(strategy) << ", sections";
    e.model.tie_word_embeddings = true;
    e.model.future_heads = FutureHeads::chained;
    EXPECT_EQ(planned_traffic(e), received(e)) << to_string(strategy) << ", an embedding in two sections";
    e.parallel.pipeline = 1;
    e.model.future_heads = FutureHeads::shared;
    EXPECT_EQ(planned_traffic(e), received(e)) << to_string(strategy) << ", shared heads";
  }
}

/// The same parameters: one block is gathered and reduced as often, whatever the number of heads that apply it.
TEST(PlannedTraffic, OfSharedHeadsIsThatOfTwoChainedOnes) {
  Experiment two = tiny_experiment();
  two.parallel.processes = 4;
  two.train.gradient_accumulation = 4;
  two.model.future_heads = FutureHeads::chained;
  two.model.future_tokens = 2;
  two.model.layers = 3;
  Experiment shared = two;
  shared.model.future_heads = FutureHeads::shared;
  shared.model.future_tokens = 4;
  shared.model.layers = 5;
  const double sums_of_heads = 0.02 * planned_traffic(two);
  EXPECT_NEAR(planned_traffic(shared), planned_traffic(two), sums_of_heads);
  shared.model.future_heads = FutureHeads::chained;
  EXPECT_GT(planned_traffic(shared), planned_traffic(two) + 5 * sums_of_heads);
}

/// What the plan says of a weighting whose calls differ on the ranks but the first.
std::string refusal_of(const std::function<void(AnyStep, bool is_first)>& call) {
  TestPlan plan = plan_of(tiny_experiment(), baseline);
  plan.ranks = 4;
  plan.compare_ranks = true;
  int opened = 0;  // once for each rank
  plan.weighting = [&] {
    const bool is_first = ++opened == 1;
    return std::make_unique<Weigh>(Needs{.when = When::all}, [&call, is_first](AnyStep step) {
      call(step, is_first);
      return Weights::by_source(step.valid().to(at::kFloat));
    });
  };
  try {
    planned(plan);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(PlannedCollectives, ARankThatSkipsOneIsRefused) {
  EXPECT_THAT(refusal_of([](AnyStep step, bool is_first) {
                if (is_first) step.collectives().sum(at::ones({2}));
              }),
              testing::AllOf(testing::HasSubstr("ranks would wait for each other forever"),
                             testing::HasSubstr("rank 0 in step 1: comparing a plugin's collective"),
                             testing::HasSubstr("rank 1 in step 1: ")));
}

TEST(PlannedCollectives, AnotherOrderOnARankIsRefused) {
  const auto calls = [](AnyStep step, bool is_first) {
    const at::Tensor values = at::ones({2});
    if (is_first) step.collectives().sum(values);
    step.collectives().quantile(values, values > 0, 0.5);
    if (!is_first) step.collectives().sum(values);
  };
  EXPECT_THAT(refusal_of(calls), testing::AllOf(testing::HasSubstr("a plugin's sum over ranks (all-gather, "),
                                                testing::HasSubstr("a plugin's quantile over ranks (all-gather, ")));
}

TEST(PlannedCollectives, AnotherShapeOnARankIsRefused) {
  EXPECT_THAT(refusal_of([](AnyStep step, bool is_first) { step.collectives().sum(at::ones({is_first ? 2 : 3})); }),
              testing::AllOf(testing::HasSubstr("2 Float to 8"), testing::HasSubstr("3 Float to 12")));
}

/// Four sections of 256 ranks, in groups of 8 of which 4 have the same sequences; ranks that are compared.
TestPlan thousand_ranks() {
  TestPlan plan = test::small_plan();
  plan.experiment.model.layers = 6;
  plan.ranks = 1024;
  plan.sections = 4;
  plan.tensor_ranks = plan.sequence_ranks = 2;
  plan.strategy = Strategy::hybrid_shard;
  plan.shard_group_size = 8;
  plan.gradient_accumulation = 4;
  plan.compare_ranks = true;
  return plan;
}

/// Rank 0, a neighbour of it along each axis, and the last rank of its section, which has the heads.
TEST(PlannedCollectives, EachKindOfRankOfAThousandThatDiffersIsRefused) {
  int opened = 0;
  std::set<int> weighing;  // the places, in the order of planned ranks, of those that have the heads
  std::optional<int> other;
  TestPlan plan = thousand_ranks();
  plan.weighting = [&] {
    return std::make_unique<Weigh>(Needs{.when = When::all}, [&, place = opened++](AnyStep step) {
      weighing.insert(place);
      if (place == other) step.collectives().sum(at::ones({2}));
      return Weights::by_source(step.valid().to(at::kFloat));
    });
  };
  planned(plan);
  const std::set<int> places = weighing;
  EXPECT_GE(places.size(), 7u);
  for (const int place : places) {
    other = place;
    opened = 0;
    EXPECT_THAT([&] { planned(plan); },
                testing::ThrowsMessage<Error>(testing::HasSubstr("ranks would wait for each other forever")))
        << "planned rank " << place;
  }
}

TEST(PlannedCollectives, RanksThatAgreeAreNotRefused) {
  for (const Strategy strategy : {Strategy::no_shard, Strategy::full_shard, Strategy::hybrid_shard})
    for (const OptimizerKind optimizer : {OptimizerKind::adamw, OptimizerKind::muon})
      for (const int64_t sequence : {1, 2}) {
        Experiment e = tiny_experiment();
        e.optimizer.kind = optimizer;
        TestPlan plan = plan_of(e, baseline);
        plan.strategy = strategy;
        plan.ranks = 8;
        plan.shard_group_size = strategy == Strategy::hybrid_shard ? 4 : 0;
        plan.sequence_ranks = sequence;
        plan.compare_ranks = true;
        EXPECT_NO_THROW(planned(plan)) << to_string(strategy) << ", " << to_string(optimizer) << ", " << sequence;
      }
}

}  // namespace
}  // namespace wmtp
