// Keys that nothing reads in an experiment.
#include "support/experiment_fixture.hpp"

namespace wmtp {
namespace {

using UnusedKeys = ExperimentFolder;

TEST_F(UnusedKeys, OfOtherOptimizersAreRefused) {
  expect_in_order(refused(small, {"optimizer.momentum=0.9"}), {"momentum does not apply to the optimizer \"adamw\""});
  const std::string sgd = small + "[optimizer]\nname = \"sgd\"\n";
  expect_in_order(refused(sgd, {"optimizer.betas=[0, 0]", "optimizer.eps=1"}),
                  {"betas does not apply to the optimizer \"sgd\"", "eps does not apply"});
  EXPECT_EQ(load(sgd).optimizer.momentum, 0.9);
  EXPECT_EQ(load(sgd, {"optimizer.momentum=0"}).optimizer.momentum, 0);
  EXPECT_EQ(load(small, {"optimizer.name=muon"}).optimizer.momentum, 0.95);
}

TEST_F(UnusedKeys, OfOtherSchedulesAreRefused) {
  const std::string wsd = small + "[schedule]\nname = \"wsd\"\nstable_steps = 7\n";
  expect_in_order(refused(wsd, {"schedule.name=cosine"}), {"stable_steps applies only to the schedule \"wsd\""});
  expect_in_order(refused(small, {"schedule.decay=cosine"}),
                  {"decay applies only to the schedule \"wsd\", found \"constant\""});
  EXPECT_EQ(load(small, {"schedule.name=cosine", "schedule.cycles=3"}).schedule.cycles, 3);
  expect_in_order(refused(small, {"schedule.name=linear", "schedule.cycles=3"}),
                  {"cycles applies only to the schedule \"cosine\", found \"linear\""});
  EXPECT_EQ(load(small, {"schedule.name=linear", "schedule.min_lr_ratio=0"}).schedule.min_lr_ratio, 0);
  expect_in_order(refused(small, {"schedule.min_lr_ratio=0.01"}),
                  {"min_lr_ratio has no effect: the schedule \"constant\" does not fall", "set name = \"linear\""});
}

TEST_F(UnusedKeys, OfValueHeadsAreRefusedWhereNoneTrains) {
  EXPECT_NO_THROW(load(small, {"optimizer.lr=0.5", "optimizer.value_head_lr=0.5"}));
  expect_in_order(refused(small, {"optimizer.value_head_lr=0.5"}),
                  {"value_head_lr has no effect: pipeline \"baseline\" trains no value head"});
}

TEST_F(UnusedKeys, OfWeightsAreRefusedWhereNoTokenHasOne) {
  const std::string weighs = small + "[validation]\nbatches = 1\n", critic = with(weighs, "baseline", "critic");
  const std::vector<std::string> keys{"train.normalize=weights", "log.samples=3", "model.vocab_size=258",
                                      "data.kind=records", "data.files=[\"a.jsonl\"]"};
  EXPECT_EQ(load(weighs, keys).log.samples, 3);
  expect_in_order(refused(critic, keys), {"normalize has no effect: pipeline \"critic\" weighs no tokens",
                                          "samples has no effect: pipeline \"critic\" weighs no tokens"});
}

TEST_F(UnusedKeys, OfPairsAreRefusedWhereNoneIsTrainedOn) {
  const std::vector<std::string> records{"model.vocab_size=258", "data.kind=records", "data.files=[\"a.jsonl\"]",
                                         "data.max_pairs_per_problem=0", "data.length_bins=[10, 20]"};
  EXPECT_EQ(load(with(small, "baseline", "critic"), records).data.max_pairs_per_problem, 0);
  expect_in_order(refused(small, records),
                  {"max_pairs_per_problem has no effect: pipeline \"baseline\" does not train on pairs of answers",
                   "length_bins has no effect"});
}

TEST_F(UnusedKeys, OfTheGuardAreRefusedWithoutALimit) {
  EXPECT_EQ(load(small, {"guard.loss_ratio=5", "guard.window=10"}).guard.window, 10);
  expect_in_order(refused(small, {"guard.window=10"}), {"window has no effect: neither loss_spike nor loss_ratio"});
  expect_in_order(refused(small, {"guard.loss_ratio=5", "guard.spike_floor=2"}),
                  {"spike_floor has no effect: loss_spike is not set"});
}

TEST_F(UnusedKeys, OfRandomDataAndOfTheLogAreRefused) {
  expect_in_order(refused(small, {"data.order=sequential"}), {"order has no effect: random data have no order"});
  EXPECT_EQ(load(small, {"log.samples=0"}).log.samples, 0);
  expect_in_order(refused(small, {"log.samples=3"}), {"samples has no effect", "add [validation]"});
  expect_in_order(refused(small, {"log.prompt_tokens=3"}), {"prompt_tokens has no effect: there are no prompts"});
}

TEST_F(UnusedKeys, MayBeGivenWithTheirDefaultsAsAResolvedTextStatesThem) {
  EXPECT_NO_THROW(load(small, {"schedule.min_lr_ratio=0.1", "guard.window=100", "guard.spike_floor=1", "log.samples=1",
                               "log.prompt_tokens=64", "data.order=shuffled"}));
}

}  // namespace
}  // namespace wmtp
