// Promises of step/token_loss.hpp and step/step_runner.hpp, seen in a whole training step: no allocation as large as
// all logits, and the host reads at most one device value per head plus two per micro-batch.
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <atomic>
#include <set>

#include "memory/allocator.hpp"
#include "support/ranks.hpp"
#include "support/tiny_training.hpp"
#include "train/utilization.hpp"

namespace wmtp {
namespace {

using test::baseline;
using test::keeps_excess;
using test::tiny_experiment;
using test::TinyTraining;

std::atomic<int> num_reads{0};

thread_local int inside_adamw = 0;

/// Operations whose result or shape the host must read before it can continue: each drains a device's queue. LibTorch's
/// AdamW for the CPU reads its step count, which the one for devices does not; so AdamW is not counted.
std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  static const std::set<std::string> reads{"aten::_local_scalar_dense",
                                           "aten::nonzero",
                                           "aten::masked_select",
                                           "aten::equal",
                                           "aten::unique",
                                           "aten::_unique2"};
  const std::string name = function.name();
  if (name == "aten::_fused_adamw_") ++inside_adamw;
  if (!inside_adamw && reads.count(name)) ++num_reads;
  return nullptr;
}
void leave(const at::RecordFunction& function, at::ObserverContext*) {
  if (std::string(function.name()) == "aten::_fused_adamw_") --inside_adamw;
}

class CountedReads {
 public:
  CountedReads()
      : handle_(at::addGlobalCallback(at::RecordFunctionCallback(enter, leave).scopes({at::RecordScope::FUNCTION}))) {
    num_reads = 0;
  }
  ~CountedReads() { at::removeCallback(handle_); }
  CountedReads(const CountedReads&) = delete;

 private:
  at::CallbackHandle handle_;
};

int reads_of_a_step(Experiment experiment, std::unique_ptr<Weighting> weighting) {
  SingleRank rank;
  TinyTraining training(experiment, std::move(weighting), rank.channels);
  // A step reads more while it measures the rate of multiplication: the first one, and each one after a share above 1.
  for (int i = 0; i < Utilization::max_measurements && training->step().metrics.at("perf/mfu") > 1; ++i) {
  }
  const CountedReads counted;
  training->step();
  return num_reads;
}

TEST(HostReads, AreCounted) {
  const CountedReads counted;
  at::ones({3}).sum().item<float>();
  at::ones({3}).nonzero();
  EXPECT_EQ(num_reads, 2);
}

TEST(HostReads, AreAtMostHeadsPlusTwoPerMicroBatch) {
  for (const int64_t accumulation : {1, 3})
    for (const double checkpointing : {0.0, 0.5, 1.0}) {
      Experiment experiment = tiny_experiment();
      experiment.train.gradient_accumulation = accumulation;
      experiment.parallel.activation_checkpointing = checkpointing;
      const int64_t limit = accumulation * (experiment.model.future_tokens + 2);
      EXPECT_LE(reads_of_a_step(experiment, baseline()), limit);
      EXPECT_LE(reads_of_a_step(experiment, keeps_excess()), limit);
    }
}

class LargestBlock : public testing::TestWithParam<Precision> {
 protected:
  static Experiment experiment(Precision precision) {
    install_allocator();
    Experiment experiment = tiny_experiment();
    experiment.model.dim = 8;
    experiment.model.layers = 3;
    experiment.model.future_tokens = 2;
    experiment.model.vocab_size = 4096;
    experiment.train.batch_size = 64;
    experiment.train.sequence_length = 128;  // four chunks of tokens, or eight without a pass for losses first
    experiment.parallel.precision = precision;
    return experiment;
  }
};

TEST_P(LargestBlock, OfAStepIsSmallerThanAllLogits) {
  for (const bool selects : {false, true}) {
    const Experiment e = experiment(GetParam());
    SingleRank rank;
    TinyTraining training(e, selects ? keeps_excess() : baseline(), rank.channels);
    reset_memory_peak();
    const int64_t before = memory_usage().live_total;
    training->step();
    training->validate();
    const MemoryUsage usage = memory_usage();
    const int64_t all_logits = 2 * e.train.batch_size * e.train.sequence_length * e.model.vocab_size;  // in bf16
    EXPECT_LT(usage.largest_block, all_logits);
    EXPECT_GT(usage.largest_block, all_logits / 64) << "the step's allocations were not counted";
    EXPECT_LT(usage.peak_total - before, 4 * all_logits) << "the sum of many small blocks";
    EXPECT_GT(usage.peak[int(MemoryCategory::logits)], 0);
  }
}

TEST(PeakOfActivations, FallsWithTheShareOfRecomputedBlocks) {
  install_allocator();
  Experiment e = tiny_experiment();
  e.model.layers = e.model.future_tokens + 8;
  e.train.batch_size = 16;
  std::vector<int64_t> peaks;
  for (const double share : {0.0, 0.5, 1.0}) {
    e.parallel.activation_checkpointing = share;
    SingleRank rank;
    TinyTraining training(e, baseline(), rank.channels);
    reset_memory_peak();
    training->step();
    peaks.push_back(memory_usage().peak[int(MemoryCategory::activations)]);
  }
  const int64_t of_blocks = peaks[0] - peaks[2];
  EXPECT_GT(of_blocks, peaks[2]) << "eight blocks keep more than one of them";
  EXPECT_NEAR(double(peaks[1] - peaks[2]), 0.5 * double(of_blocks), 0.15 * double(of_blocks));
}

INSTANTIATE_TEST_SUITE_P(All, LargestBlock, testing::Values(Precision::fp32, Precision::bf16),
                         [](const auto& info) { return std::string(to_string(info.param)); });

}  // namespace
}  // namespace wmtp
