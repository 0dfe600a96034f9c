// The plan against the engine: the measured memory of one rank, for several models, phase by phase; the operations of a
// step; and the bytes that ranks exchange.
#include <gtest/gtest.h>

#include <atomic>
#include <torch/csrc/distributed/c10d/Backend.hpp>

#include "core/replay/memory.hpp"
#include "engine/memory/allocator.hpp"
#include "engine/run/describe_layout.hpp"
#include "engine/train/utilization.hpp"
#include "support/ranks.hpp"
#include "support/tiny_training.hpp"

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
  std::vector<Param> declare(const Linear& slot) const override {
    if (slot.name.find(".attention.") == std::string::npos) return {};
    return {{"a", {8, slot.in}, Param::Init::uniform, 0.1}, {"b", {slot.out, 8}}};
  }
  at::Tensor forward(const Linear&, const at::Tensor& x, LinearCall& call) const override {
    return call.base(x) + call.linear(call.linear(x, "a"), "b");
  }
  Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>&) const override { return weight; }
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

MemoryQuestion question_of(const Experiment& e, const Adapter& adapter, const std::string& when) {
  LayoutRequest request;
  request.model = &e.model;
  request.adapter = &adapter;
  request.optimizer = e.optimizer;
  MemoryQuestion question;
  question.optimizer = e.optimizer;
  question.ema = e.train.ema > 0;
  question.policy = {e.model, planned_layout(request), e.parallel.strategy, e.parallel.precision};
  question.token_heads = e.model.future_tokens;
  question.when = when;
  question.sequences = e.train.batch_size;
  question.positions = e.train.sequence_length;
  question.gradient_accumulation = e.train.gradient_accumulation;
  question.activation_checkpointing = e.parallel.activation_checkpointing;
  return question;
}

void expect_planned(const Experiment& e, const Adapter& adapter, std::unique_ptr<Weighting> weighting,
                    const std::string& when) {
  install_allocator();
  SingleRank rank;
  reset_memory_peak();
  const int64_t before = memory_usage().live_total;
  TinyTraining training(e, std::move(weighting), rank.channels, {.adapter = &adapter});
  training->step();
  training->step();
  const auto found = memory_usage().phases;
  const auto planned = plan_memory(question_of(e, adapter, when)).phases;
  for (const char* phase : {"forward", "head_1", "head_3", "backward", "optimizer"}) {
    const auto most = double(found.at(phase).total - before);
    EXPECT_NEAR(double(planned.at(phase).total) / most, 1, 0.1) << phase << " took " << most;
    for (int i = 0; i < num_memory_categories; ++i)
      EXPECT_NEAR(double(planned.at(phase).bytes[size_t(i)]), double(found.at(phase).bytes[size_t(i)]), 0.12 * most)
          << phase << ", " << to_string(MemoryCategory(i));
  }
}

TEST(MemoryPlan, MatchesFullTraining) { expect_planned(small_experiment(), Everything(), baseline(), "before"); }

TEST(MemoryPlan, MatchesBf16) {
  Experiment e = small_experiment();
  e.parallel.precision = Precision::bf16;
  expect_planned(e, Everything(), baseline(), "before");
}

TEST(MemoryPlan, MatchesHeadsThatAreNotDifferentiated) {
  Experiment e = small_experiment();
  expect_planned(e, LaterHeads(), baseline(), "before");
  e.model.future_heads = FutureHeads::chained;
  expect_planned(e, LaterHeads(), baseline(), "before");
}

TEST(MemoryPlan, MatchesActivationCheckpointing) {
  Experiment e = small_experiment();
  e.parallel.activation_checkpointing = 1;
  expect_planned(e, Everything(), baseline(), "before");
}

TEST(MemoryPlan, MatchesCheckpointingOfHalfTheBlocks) {
  Experiment e = small_experiment();
  e.parallel.activation_checkpointing = 0.5;
  expect_planned(e, Everything(), baseline(), "before");
}

TEST(MemoryPlan, MatchesGroupedQueriesAndWideFeedForward) {
  Experiment e = small_experiment();
  e.model.kv_heads = 1;
  e.model.ffn_dim = 700;
  expect_planned(e, Everything(), baseline(), "before");
}

TEST(MemoryPlan, MatchesBiasesAndNormedHeadsOfTheirOwnWidth) {
  Experiment e = small_experiment();
  e.model.qkv_bias = e.model.o_bias = e.model.qk_norm = true;
  e.model.head_dim = 64;
  e.model.sliding_window = 50;
  expect_planned(e, Everything(), baseline(), "before");
}

TEST(MemoryPlan, MatchesNormsAfterAndJointNormsOfQueriesAndKeys) {
  Experiment e = small_experiment();
  e.model.joint_qk_norm = e.model.post_norm = true;
  expect_planned(e, Everything(), baseline(), "before");
}

TEST(MemoryPlan, MatchesBlocksWithoutPositions) {
  Experiment e = small_experiment();
  e.model.no_rope_layer_interval = 2;
  expect_planned(e, Everything(), baseline(), "before");
}

TEST(MemoryPlan, MatchesLongSequences) {
  Experiment e = small_experiment();
  e.train.batch_size = 1;
  e.train.sequence_length = 1000;
  expect_planned(e, Everything(), baseline(), "before");
}

TEST(MemoryPlan, MatchesGradientAccumulation) {
  Experiment e = small_experiment();
  e.train.gradient_accumulation = 3;
  expect_planned(e, Everything(), baseline(), "before");
}

TEST(MemoryPlan, MatchesMuonWithAMovingAverage) {
  Experiment e = small_experiment();
  e.optimizer.name = "muon";
  e.train.ema = 0.9;
  expect_planned(e, Everything(), baseline(), "before");
}

TEST(MemoryPlan, MatchesSgd) {
  Experiment e = small_experiment();
  e.optimizer.name = "sgd";
  expect_planned(e, Everything(), baseline(), "before");
}

TEST(MemoryPlan, MatchesAnAdapterOnFrozenWeights) {
  expect_planned(small_experiment(), LowRank(), baseline(), "before");
}

TEST(MemoryPlan, MatchesAWeightingThatNeedsLossesFirst) {
  expect_planned(small_experiment(), Everything(),
                 std::make_unique<Weigh>(Needs{.when = When::head},
                                         [](AnyStep step) { return Weights::by_source(step.valid().to(at::kFloat)); }),
                 "head");
}

TEST(MemoryPlan, MatchesLogitsInManyChunks) {
  Experiment e = small_experiment();
  e.model.vocab_size = 30000;
  expect_planned(e, Everything(), baseline(), "before");
}

void expect_operations(const Experiment& e, const Adapter& adapter) {
  SingleRank rank;
  TinyTraining training(e, baseline(), rank.channels, {.adapter = &adapter});
  const int64_t window = e.model.sliding_window, S = e.train.sequence_length,
                keys = window > 0 ? std::min(window, S) : S;
  const Work work = plan_memory(question_of(e, adapter, "before")).work;
  EXPECT_DOUBLE_EQ(work.operations - work.extra, step_operations(training.model())
                                                     .of(e.train.batch_size * e.train.sequence_length,
                                                         e.train.batch_size * e.train.sequence_length * keys));
}

TEST(PlannedOperations, AreThoseOfTheUtilization) {
  expect_operations(small_experiment(), Everything());
  expect_operations(small_experiment(), LowRank());
  expect_operations(small_experiment(), LaterHeads());
  Experiment e = small_experiment();
  e.model.kv_heads = 2;
  e.model.sliding_window = 50;
  expect_operations(e, Everything());
  e.model.future_heads = FutureHeads::chained;
  e.parallel.activation_checkpointing = 0.5;
  expect_operations(e, Everything());
  expect_operations(e, LaterHeads());
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
  const MakeBackend memory = through_memory(gloo("127.0.0.1"));
  const MakeBackend counting = [&](const auto& store, int rank, int size, std::chrono::milliseconds timeout) {
    return c10::make_intrusive<CountingBackend>(memory(store, rank, size, timeout), bytes);
  };
  const auto train = [&](Channels& channels) {
    channels.share_sequences(int(e.parallel.sequence));
    TinyTraining training(e, baseline(), channels);
    training->step();
  };
  test::on_ranks(4, train, counting);
  return bytes / 4;
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
    MemoryQuestion question = question_of(e, Everything(), "before");
    question.ranks = 4;
    question.reduce = e.parallel.reduce;
    question.policy.shard_group_size = e.parallel.shard_group_size;
    EXPECT_EQ(plan_memory(question).work.traffic.bus, received(e)) << to_string(strategy);
    e.optimizer.name = "muon";
    MemoryQuestion of_muon = question;
    of_muon.policy.layout = question_of(e, Everything(), "before").policy.layout;
    of_muon.optimizer = e.optimizer;
    EXPECT_EQ(plan_memory(of_muon).work.traffic.bus, received(e)) << to_string(strategy) << ", Muon";
    e.optimizer = {};
    e.parallel.sequence = question.sequence = 2;
    EXPECT_EQ(plan_memory(question).work.traffic.bus, received(e)) << to_string(strategy) << ", divided positions";
  }
}

}  // namespace
}  // namespace wmtp
