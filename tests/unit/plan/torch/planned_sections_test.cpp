// The planned step of a rank in each section against a run of that rank: memory byte for byte, phase by phase and
// category by category. The other ranks of the run are echoes, which send back what they receive.
#include <gtest/gtest.h>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "checkpoint/torch/model_files.hpp"
#include "memory/phase.hpp"
#include "plan/torch/planned.hpp"

namespace wmtp {
namespace {

using test::install_meta_device_for;
using test::parts_of;
using test::planned;
using test::TestPlan;
using test::TinyTraining;

class Done final : public c10d::Work {
 public:
  bool wait(std::chrono::milliseconds) override { return true; }
};

class Echo final : public c10d::Backend {
 public:
  using c10d::Backend::Backend;
  const std::string getBackendName() const override { return "echo"; }
  void setTimeout(std::chrono::milliseconds) override {}
  void abort() override {}

  c10::intrusive_ptr<c10d::Work> _allgather_base(at::Tensor& output, at::Tensor& input,
                                                 const c10d::AllgatherOptions&) override {
    const at::Tensor parts = output.view({size_, -1});
    for (int64_t rank = 0; rank < size_; ++rank)
      if (!parts[rank].is_alias_of(input) || rank != rank_) parts[rank].copy_(input.view({-1}));
    return c10::make_intrusive<Done>();
  }
  c10::intrusive_ptr<c10d::Work> alltoall_base(at::Tensor& output, at::Tensor& input, std::vector<int64_t>&,
                                               std::vector<int64_t>&, const c10d::AllToAllOptions&) override {
    output.copy_(input);
    return c10::make_intrusive<Done>();
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>&, const c10d::BroadcastOptions&) override {
    return c10::make_intrusive<Done>();
  }
};

/// What the phases of the second step of a rank hold, and that of saving the model.
std::map<std::string, MemorySnapshot> phases_of_run(const TestPlan& plan, int rank) {
  install_allocator();
  install_meta_device(at::kCPU);
  const auto echo = [](const auto&, const RankAxis& line, std::chrono::milliseconds) {
    return c10::make_intrusive<Echo>(line.rank, line.size);
  };
  Peers peers(rank, int(plan.ranks));
  Channels all(peers, echo, echo, std::chrono::milliseconds(0));
  all.form_sections(int(plan.sections));
  all.section_channels().share_sequences(int(plan.sequence_ranks), int(plan.tensor_ranks));
  const MemoryUsage before = memory_usage();
  TinyTraining training(in_layout(plan.experiment, plan), plan.weighting(), all.section_channels());
  training->step();
  reset_memory_peak();
  training->step();
  {
    const Phase phase("checkpoint");
    const auto unwritten = [](const ParameterSpec&, const at::Tensor&) {};
    EXPECT_FALSE(for_each_saved_tensor(training.model(), nullptr, rank == 0 ? VisitSaved(unwritten) : nullptr));
  }
  return test::phases_since(before);
}

TestPlan sections_of(int64_t sections, int64_t ranks_of_section, Strategy strategy, int64_t micro_batches) {
  TestPlan plan = test::small_plan();
  plan.experiment.model.layers = 6;  // two heads
  plan.sections = sections;
  plan.ranks = sections * ranks_of_section;
  plan.strategy = strategy;
  plan.gradient_accumulation = micro_batches;
  return plan;
}

void expect_planned(const TestPlan& plan) {
  const int64_t of_section = plan.ranks / plan.sections;
  for (int64_t rank = 0; rank < plan.ranks; rank += of_section) {
    const auto found = phases_of_run(plan, int(rank));
    const auto expected = planned(plan, int(rank)).phases;
    ASSERT_TRUE(found.contains("optimizer") && found.contains("checkpoint"));
    for (const auto& [name, phase] : found) {
      ASSERT_TRUE(expected.contains(name)) << name;
      EXPECT_EQ(expected.at(name).total, phase.total) << name << " on rank " << rank;
      for (size_t i = 0; i < num_memory_categories; ++i)
        EXPECT_EQ(expected.at(name).bytes[i], phase.bytes[i])
            << name << ", " << to_string(MemoryCategory(i)) << " on rank " << rank;
    }
  }
}

const std::vector<TestPlan> layouts{
    sections_of(2, 1, Strategy::no_shard, 1), sections_of(2, 2, Strategy::full_shard, 3),
    sections_of(3, 2, Strategy::shard_grad_op, 2), sections_of(2, 2, Strategy::full_shard, 7),
    sections_of(3, 2, Strategy::shard_grad_op, 7)};

TEST(PlannedSections, HoldWhatARunDoes) {
  for (const TestPlan& plan : layouts) expect_planned(plan);
}

TEST(PlannedSections, HoldTwinsOfTheEmbeddingAndExchangeTheirGradients) {
  for (TestPlan plan : layouts)
    for (const auto& [tied, heads] : {std::pair{true, FutureHeads::parallel}, std::pair{false, FutureHeads::chained},
                                      std::pair{true, FutureHeads::chained}}) {
      plan.experiment.model.tie_word_embeddings = tied;
      plan.experiment.model.future_heads = heads;
      expect_planned(plan);
    }
}

/// Their sections have different numbers of micro-batches in flight.
TEST(PlannedSections, AgreeOnTheirCollectivesWithAnyNumberOfMicroBatches) {
  for (const int64_t sections : {2, 3, 4})
    for (const int64_t micro_batches : {1, 3, 4, 5, 6, 12}) {
      TestPlan plan = sections_of(sections, 2, Strategy::full_shard, micro_batches);
      plan.compare_ranks = true;
      const PlannedStep compared = planned(plan);
      plan.compare_ranks = false;
      const PlannedStep step = planned(plan);
      EXPECT_EQ(Json(compared.phases), Json(step.phases))
          << sections << " sections, " << micro_batches << " micro-batches";
    }
}

TEST(PlannedSections, AreRunOnceForAllRates) {
  TestPlan plan = sections_of(3, 2, Strategy::full_shard, 12);
  install_meta_device_for(plan);
  KnownSteps known;
  plan.rates = Rates{.operations = 1e9, .bus = 1e9, .network = 1e8};
  plan_step(plan.experiment, plan, parts_of(plan), known);
  const size_t runs = known.size();
  plan.rates = Rates{.operations = 1e10, .bus = 1e7, .network = 1e7};
  EXPECT_EQ(Json(plan_step(plan.experiment, plan, parts_of(plan), known)), Json(planned(plan)));
  EXPECT_EQ(known.size(), runs);
}

}  // namespace
}  // namespace wmtp
