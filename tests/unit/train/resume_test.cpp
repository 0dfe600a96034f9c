// A promise of checkpoint/torch and train/trainer.hpp together: a run that is saved midway and resumed with another
// number of ranks or another strategy. Where ranks times batch stay the same, a step has the same sequences, so numbers
// may differ by the order of sums only.
#include <gtest/gtest.h>

#include "checkpoint/torch/state_saver.hpp"
#include "checkpoint/torch/training_state.hpp"
#include "support/plain_store.hpp"
#include "support/ranks.hpp"
#include "support/test_folder.hpp"
#include "support/tiny_training.hpp"

namespace wmtp::test {
namespace {

constexpr int64_t sequences = 12, before = 3, after = 4;

Experiment experiment_of(Strategy strategy, int64_t batch_size) {
  Experiment e = tiny_experiment();
  e.parallel.strategy = strategy;
  e.train.batch_size = batch_size;
  e.optimizer.eps = 1e-5;  // else an element without a gradient moves by the sign of its rounding error
  return e;
}

/// Losses and sequences of the steps, and the logical parameters at the end.
struct Observed {
  std::vector<double> losses;
  std::vector<std::vector<int64_t>> sequences;  ///< of all ranks, rank by rank
  std::map<std::string, Tensor> parameters;
};

std::map<std::string, Tensor> parameters_of(ShardedModel& model) {
  std::map<std::string, Tensor> parameters;
  for (ParameterGroup* group : model.trained_groups()) {
    const Tensor flat = group->gather_master().clone();
    for (const FlatParameter& placed : group->parameters())
      parameters[placed.spec.name] = flat.narrow(0, placed.offset, placed.count);
  }
  return parameters;
}

Observed train_steps(TinyTraining& training, int64_t steps, Channels& channels) {
  Observed seen;
  for (int64_t i = 0; i < steps; ++i) {
    const StepReport report = training->step();
    seen.losses.push_back(report.loss);
    const Tensor all = channels.all_gather(at::tensor(report.sequences, at::kDouble), "comparing sequences").flatten();
    seen.sequences.emplace_back();
    for (int64_t j = 0; j < all.numel(); ++j) seen.sequences.back().push_back(all[j].item<int64_t>());
  }
  seen.parameters = parameters_of(training->model());
  return seen;
}

void save(TinyTraining& training, const fs::path& folder, Channels& channels) {
  const TrainerState& state = training->state();
  StateSaver saver(channels.peers(), training->optimizer(), folder, {9});
  saver.begin({state.step, "hash", {}, state.saved(), &state.pipeline_state}, SaveMode::alone);
  ASSERT_EQ(saver.finish()->failure, "");
}

void load(TinyTraining& training, const fs::path& folder) {
  TrainerState& state = training->state();
  const LoadedState loaded =
      load_training_state(folder / checkpoint_name(before), training->optimizer(), state.pipeline_state);
  state.restore(loaded.manifest, loaded.state, sequences, folder.string());
}

/// Two ranks: the parameters at the save, and the continuation without an interruption.
std::pair<std::map<std::string, Tensor>, Observed> save_in_the_middle(Strategy strategy, const fs::path& folder) {
  std::map<std::string, Tensor> saved;
  Observed seen;
  on_ranks(2, [&](Channels& channels) {
    TinyTraining training(experiment_of(strategy, sequences / 2), baseline(), channels);
    train_steps(training, before, channels);
    save(training, folder, channels);
    auto parameters = parameters_of(training->model());
    Observed mine = train_steps(training, after, channels);
    if (channels.rank() != 0) return;
    saved = std::move(parameters);
    seen = std::move(mine);
  });
  return {saved, seen};
}

TEST(Resume, ContinuesEquallyWithAnyNumberOfRanksAndAnyStrategy) {
  for (const Strategy saved_under : {Strategy::no_shard, Strategy::shard_optimizer, Strategy::full_shard}) {
    TestFolder folder(memory_folder());
    const auto [saved, wanted] = save_in_the_middle(saved_under, folder.path());
    for (const int ranks : {1, 2, 3, 4})
      for (const Strategy strategy :
           {Strategy::no_shard, Strategy::shard_optimizer, Strategy::shard_grad_op, Strategy::full_shard}) {
        SCOPED_TRACE(std::string(to_string(saved_under)) + ", then " + std::to_string(ranks) + " x " +
                     to_string(strategy));
        on_ranks(ranks, [&, &saved = saved, &wanted = wanted](Channels& channels) {
          TinyTraining training(experiment_of(strategy, sequences / ranks), baseline(), channels);
          load(training, folder.path());
          for (const auto& [name, values] : parameters_of(training->model()))
            EXPECT_TRUE(at::equal(values, saved.at(name))) << name << " after loading";
          const Observed found = train_steps(training, after, channels);
          EXPECT_EQ(found.sequences, wanted.sequences);
          const bool same_layout = ranks == 2 && strategy == saved_under;
          for (int64_t i = 0; i < after; ++i) {
            const double loss = wanted.losses[size_t(i)];
            EXPECT_NEAR(found.losses[size_t(i)], loss, same_layout ? 0 : 1e-6 * loss) << "step " << i;
          }
          for (const auto& [name, values] : found.parameters) {
            if (same_layout)
              EXPECT_TRUE(at::equal(values, wanted.parameters.at(name))) << name;
            else
              EXPECT_LT(distance(values, wanted.parameters.at(name)), 1e-6) << name;
          }
        });
      }
  }
}

TEST(Resume, ContinuesWithTheSameBitsFromMemoryInAFileAndBack) {
  for (const auto& [kind, precision] :
       {std::pair{OptimizerKind::adamw, Precision::fp32}, std::pair{OptimizerKind::sgd, Precision::fp32},
        std::pair{OptimizerKind::adamw, Precision::bf16}, std::pair{OptimizerKind::sgd, Precision::fp16}}) {
    SCOPED_TRACE(to_string(precision));
    TestFolder folder(memory_folder());
    const auto experiment_with = [&, kind = kind, precision = precision](OptimizerOffload offload) {
      Experiment e = experiment_of(Strategy::full_shard, sequences / 2);
      e.optimizer.kind = kind;
      e.parallel.precision = precision;
      e.optimizer.momentum = kind == OptimizerKind::sgd ? 0.9 : 0;
      e.train.ema = 0.9;
      e.parallel.optimizer_offload = offload;
      e.parallel.offload_path = folder.path().string();
      return e;
    };
    for (const auto& [first, then] : {std::pair{OptimizerOffload::none, OptimizerOffload::nvme},
                                      std::pair{OptimizerOffload::nvme, OptimizerOffload::none}})
      on_ranks(2, [&, first = first, then = then](Channels& channels) {
        const fs::path checkpoints = folder / to_string(first);
        TinyTraining whole(experiment_with(first), baseline(), channels);
        train_steps(whole, before, channels);
        save(whole, checkpoints, channels);
        const Observed wanted = train_steps(whole, after, channels);
        TinyTraining resumed(experiment_with(then), baseline(), channels);
        load(resumed, checkpoints);
        const Observed found = train_steps(resumed, after, channels);
        EXPECT_EQ(found.losses, wanted.losses);
        for (const auto& [name, values] : found.parameters)
          EXPECT_TRUE(at::equal(values, wanted.parameters.at(name))) << name;
        whole->optimizer().swap_with_ema();
        resumed->optimizer().swap_with_ema();
        const auto averages = parameters_of(whole->model());
        for (const auto& [name, values] : parameters_of(resumed->model()))
          EXPECT_TRUE(at::equal(values, averages.at(name))) << "average of " << name;
      });
  }
}

TEST(Resume, OtherRanksDrawFromWhereTheSavingRanksStopped) {
  TestFolder folder(memory_folder());
  save_in_the_middle(Strategy::full_shard, folder.path());
  for (const int ranks : {1, 3}) {
    on_ranks(ranks, [&](Channels& channels) {
      TinyTraining training(experiment_of(Strategy::full_shard, 2), baseline(), channels);
      load(training, folder.path());
      int64_t next = before * sequences;
      for (const auto& sequences : train_steps(training, 3, channels).sequences)
        for (const int64_t sequence : sequences) EXPECT_EQ(sequence, next++) << ranks << " ranks";
      EXPECT_EQ(training->state().drawn, next);
    });
  }
}

}  // namespace
}  // namespace wmtp::test
