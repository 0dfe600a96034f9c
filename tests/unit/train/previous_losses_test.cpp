// A promise of step/previous_losses.hpp and train/trainer.hpp together: what a weighting reads of the epoch before, at
// every moment, and that only a step that was accepted changes it.
#include <gtest/gtest.h>

#include "base/error.hpp"
#include "support/ranks.hpp"
#include "support/tiny_training.hpp"

namespace wmtp::test {
namespace {

constexpr int64_t num_windows = 5, S = 12, heads = 3, batch = 2;

/// Five windows of ids, read again and again.
class FewWindows final : public TokenWindows {
 public:
  int64_t count() const override { return num_windows; }
  void read(int64_t index, int64_t* ids) const override {
    for (int64_t s = 0; s < S; ++s) ids[s] = (7 * index + 3 * s + index * s) % 40;
  }
};

std::unique_ptr<BatchSource> few_windows(const TokenWindows& windows, DataOrder order) {
  BatchRequest request;
  request.heads = heads;
  return window_batches(windows, WindowOrder(3, num_windows, order), batch, S, request);
}

/// By step and head: the present losses and the previous ones, [B,S] by source.
using Read = std::map<std::pair<int64_t, int64_t>, std::pair<Tensor, Tensor>>;

/// Weights that differ from step to step, so that what is read has an effect.
std::unique_ptr<Weighting> reader(When when, Read& read) {
  return std::make_unique<Weigh>(
      Needs{.when = when, .reads = {Signal::policy_loss, Signal::policy_previous_loss}}, [&read](AnyStep step) {
        const Tensor present = step.get(Signal::policy_loss), previous = step.get(Signal::policy_previous_loss);
        if (step.number() > 0) {
          const bool is_all = present.dim() == 3;
          for (int64_t head = is_all ? 1 : step.head(); head <= (is_all ? heads : step.head()); ++head) {
            const auto of_head = [&](const Tensor& x) {
              if (is_all) return x.select(2, head - 1).clone();
              return x.dim() == 2 ? x.clone() : at::constant_pad_nd(x.view({batch, -1}), {0, head});
            };
            read[{step.number(), head}] = {of_head(present), of_head(previous)};
          }
        }
        return Weights::by_source(1 + (previous - present).clamp(0, 1));
      });
}

void expect_losses_of_the_epoch_before(When when, DataOrder order) {
  SingleRank rank;
  const FewWindows windows;
  const auto source = few_windows(windows, order);
  const WindowOrder positions(3, num_windows, order);
  Read read;
  TinyTraining training(tiny_experiment(), reader(when, read), rank.channels, {.training = source.get()});
  std::map<std::pair<int64_t, int64_t>, Tensor> last;  // losses [S] by window and head
  int64_t compared = 0;
  for (int64_t step = 1; step <= 8; ++step) {
    training->step();
    std::map<std::pair<int64_t, int64_t>, Tensor> now;
    for (int64_t head = 1; head <= heads; ++head) {
      const auto& [present, previous] = read.at({step, head});
      for (int64_t b = 0; b < batch; ++b) {
        const int64_t window = positions.window((step - 1) * batch + b);
        const auto before = last.find({window, head});
        EXPECT_TRUE(at::equal(previous[b], before == last.end() ? present[b] : before->second))
            << "step " << step << ", head " << head << ", row " << b;
        compared += before != last.end();
        now[{window, head}] = present[b];
      }
    }
    for (auto& [key, losses] : now) last[key] = losses;
  }
  EXPECT_GE(compared, 3 * heads * num_windows / 2);
}

TEST(PreviousLosses, AWeightingReadsThoseOfTheEpochBefore) {
  for (const When when : {When::token, When::head, When::all})
    for (const DataOrder order : {DataOrder::sequential, DataOrder::shuffled})
      expect_losses_of_the_epoch_before(when, order);
}

TEST(PreviousLosses, HeldOutTokensHaveTheirPresentLoss) {
  SingleRank rank;
  const FewWindows windows;
  const auto source = few_windows(windows, DataOrder::sequential);
  Experiment e = tiny_experiment();
  e.log.samples = 2;
  Tensor weights;
  const auto weighting = [&](AnyStep step) {
    if (step.number() > 3) return Weights::by_source(step.valid().to(at::kFloat));
    weights = 1 + (step.get(Signal::policy_previous_loss) - step.get(Signal::policy_loss)).abs();
    return Weights::by_source(weights);
  };
  const Needs needs{.when = When::head, .reads = {Signal::policy_loss, Signal::policy_previous_loss}};
  TinyTraining training(e, std::make_unique<Weigh>(needs, weighting), rank.channels, {.training = source.get()});
  for (int64_t step = 1; step <= 3; ++step) training->step();
  EXPECT_GT(weights.max().item<float>(), 1) << "the third step reads a window again";
  training->sample();
  EXPECT_EQ(weights.max().item<float>(), 1);
}

TEST(PreviousLosses, ASkippedStepLeavesThemAsTheyWere) {
  SingleRank rank;
  const FewWindows windows;
  const auto source = few_windows(windows, DataOrder::sequential);
  Read read;
  TinyTraining training(tiny_experiment(), reader(When::head, read), rank.channels, {.training = source.get()});
  for (int64_t step = 1; step <= 3; ++step) training->step();
  const Tensor before = training->state().previous_losses->table().clone();
  training->state().loss_scale.emplace().restore({.scale = 1e60});  // no gradient survives it
  EXPECT_NE(training->step().skipped, "");
  EXPECT_TRUE(at::equal(training->state().previous_losses->table(), before));
  training->state().loss_scale.reset();
  EXPECT_EQ(training->step().skipped, "");
  EXPECT_FALSE(at::equal(training->state().previous_losses->table(), before));
}

TEST(PreviousLosses, ACheckpointReplacesThemIfItIsOfTheSameData) {
  SingleRank rank;
  const FewWindows windows;
  const auto source = few_windows(windows, DataOrder::sequential);
  Read read;
  TinyTraining training(tiny_experiment(), reader(When::head, read), rank.channels, {.training = source.get()});
  TrainerState& state = training->state();
  const auto restore = [&] { state.restore(Manifest{}, state.saved(), /*sequences_per_step=*/batch, "here"); };
  const auto refusal = [&] {
    try {
      restore();
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ(refusal(), "here: state has no previous losses; wanted [5,12,3]: windows, positions, heads");
  state.pipeline_state[PreviousLosses::state_name] = at::zeros({4, S, heads});
  EXPECT_EQ(refusal(), "here: state has previous losses of shape [4,12,3]; wanted [5,12,3]: windows, positions, heads");
  const Tensor saved = at::rand({num_windows, S, heads});
  state.pipeline_state[PreviousLosses::state_name] = saved;
  restore();
  EXPECT_TRUE(state.pipeline_state.empty());
  EXPECT_TRUE(at::equal(state.previous_losses->table(), saved));
}

TEST(PreviousLosses, AStepThatDoesNotReadThemHasNone) {
  SingleRank rank;
  TinyTraining training(tiny_experiment(), baseline(), rank.channels);
  training->step();
  EXPECT_FALSE(training->state().previous_losses);
  EXPECT_TRUE(training->state().named_tensors().empty());
}

}  // namespace
}  // namespace wmtp::test
