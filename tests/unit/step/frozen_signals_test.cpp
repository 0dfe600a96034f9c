// Signals of a frozen model, cached on disk: computed once, read back bit for bit.
#include "step/frozen_signals.hpp"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <fstream>

#include "step/step_runner.hpp"
#include "support/answers.hpp"
#include "support/ranks.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using test::Answer;
using test::batch_of;
using test::TinyTraining;

constexpr int64_t S = 12;
const std::vector<Answer> some_answers{{{3, 1, 4, 1, 5, 9, 2}, 3}, {{6, 5, 3, 5}, 2}, {}};

FrozenCache::Stores only_loss(FrozenCache::Stores stores) {
  stores.erase("entropy");
  return stores;
}

class FrozenSignalsTest : public testing::Test {
 protected:
  FrozenSignalsTest() {
    std::string pattern = (fs::temp_directory_path() / "wmtp-signals-XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~FrozenSignalsTest() override { fs::remove_all(folder_); }

  FrozenCache::Stores stores(const std::string& name = "one") const {
    FrozenCache::Stores stores;
    for (const char* signal : {"loss", "entropy"})
      stores[signal] = std::make_unique<SignalStore>(folder_ / name, signal, S,
                                                     [](const std::string& why) { ADD_FAILURE() << why; });
    return stores;
  }
  FrozenCache opened(const std::string& name = "one") {
    return {"reference",
            {"loss", "entropy"},
            [this] {
              ++builds_;
              return std::make_unique<FrozenModel>(
                  test::tiny_model(experiment_, Heads::first, nullptr, 3, rank_.channels), 16);
            },
            stores(name)};
  }

  fs::path folder_;
  Experiment experiment_ = test::tiny_experiment();
  SingleRank rank_;
  std::atomic<int> builds_ = 0;
};

TEST_F(FrozenSignalsTest, AreComputedOnceAndReadBackBitForBitWithoutTheModel) {
  const MicroBatch micro = batch_of(some_answers, S, 3);
  FrozenCache first = opened();
  EXPECT_FALSE(first.read_cached(micro));
  const auto computed = first.compute_and_cache(micro);
  ASSERT_EQ(computed.size(), 2U);
  EXPECT_EQ(builds_, 1);

  const auto kept = opened().read_cached(micro);
  ASSERT_TRUE(kept);
  EXPECT_EQ(builds_, 1) << "the model was built although everything is cached";
  for (const auto& [name, signal] : computed) {
    EXPECT_TRUE(at::equal(kept->at(name).narrow(0, 0, 2), signal.narrow(0, 0, 2))) << name;
    EXPECT_GT(signal.narrow(0, 0, 2).abs().sum().item<float>(), 0) << name;
  }
}

TEST_F(FrozenSignalsTest, OfAShorterBatchServeALongerBatch) {
  opened().compute_and_cache(batch_of(some_answers, 8, 3));
  const auto computed = opened("other").compute_and_cache(batch_of(some_answers, S, 3));
  const auto kept = opened().read_cached(batch_of(some_answers, S, 3));
  ASSERT_TRUE(kept);
  for (const auto& [name, signal] : computed)  // up to the last token, which predicts padding
    EXPECT_LT((kept->at(name)[0] - signal[0]).narrow(0, 0, 6).abs().max().item<float>(), 1e-5) << name;
}

TEST_F(FrozenSignalsTest, OfSequencesOfTwoTokensAreThoseOfLongerOnesOnOneRankAndWherePositionsAreDivided) {
  const auto longer = opened("other").compute_and_cache(batch_of(some_answers, S, 1));
  const MicroBatch two_tokens = batch_of({{{3, 1}, 0}, {{6, 5}, 0}, {}}, 2, 1);  // as those begin
  const auto expect_equal = [&](const FrozenCache::Signals& shorter) {
    for (const auto& [name, signal] : shorter)
      EXPECT_LT((longer.at(name) - signal.narrow(1, 0, 1)).narrow(0, 0, 2).select(1, 0).abs().max().item<float>(), 1e-5)
          << name;
  };
  expect_equal(opened().compute_and_cache(two_tokens));
  test::on_ranks(2, [&](Channels& channels) {
    channels.share_sequences(2);
    FrozenModel model(test::tiny_model(experiment_, Heads::first, nullptr, 3, channels), 16);
    FrozenCache::Signals signals;
    for (const auto& [name, signal] : model.signals(two_tokens, {"loss", "entropy"}))
      signals["reference." + name] = signal;
    expect_equal(signals);
  });
}

/// A reference with heads, of which each signal is [B,S,H].
class FrozenHeadsTest : public FrozenSignalsTest {
 protected:
  FrozenHeadsTest() { experiment_.parallel.strategy = Strategy::full_shard; }
  std::unique_ptr<FrozenModel> model(Channels& channels) const {
    return std::make_unique<FrozenModel>(test::tiny_model(experiment_, Heads::all, nullptr, 3, channels), 16);
  }
  FrozenCache opened(Channels& channels) const {
    FrozenCache::Stores stores;
    for (const char* signal : {"loss", "entropy"})
      stores[signal] = std::make_unique<SignalStore>(folder_ / "heads", signal, S * heads,
                                                     [](const std::string& why) { ADD_FAILURE() << why; });
    return {"reference", {"loss", "entropy"}, [this, &channels] { return model(channels); }, std::move(stores), heads};
  }
  const int64_t heads = experiment_.model.future_tokens;
};

/// The same weights as a policy, whose losses tests/parity compares with PyTorch.
TEST_F(FrozenHeadsTest, HaveTheLossesOfAPolicyWithTheSameWeights) {
  const MicroBatch micro = batch_of(some_answers, S, heads);
  for (const FutureHeads kind : {FutureHeads::parallel, FutureHeads::chained, FutureHeads::shared}) {
    experiment_.model.future_heads = kind;
    const test::Everything everything;
    const auto policy = test::tiny_model(experiment_, Heads::all, &everything, 3, rank_.channels);
    ActivePipeline pipeline = test::pipeline_of(test::baseline());
    StepRunner step(*policy, pipeline, rank_.channels, {});
    RankCollectives collectives(rank_.channels);
    std::map<std::string, Tensor> pipeline_state;
    RunContext run_context{heads, experiment_.model.vocab_size, 1, 1, collectives, pipeline_state};
    StepTotals totals;
    const StepCounts counts{};
    MicroBatchContext context(run_context, {0, counts, totals}, micro);
    const std::vector<Scores> wanted = step.evaluate(context);
    const auto signals = model(rank_.channels)->signals(micro, {"loss", "entropy"});
    ASSERT_EQ(signals.at("loss").sizes(), (at::IntArrayRef{3, S, heads})) << to_string(kind);
    ASSERT_EQ(signals.at("entropy").sizes(), signals.at("loss").sizes());
    for (int64_t k = 1; k <= heads; ++k) {
      const Tensor loss = signals.at("loss").select(2, k - 1) * micro.sources(k);
      EXPECT_GT(loss.sum().item<float>(), 0) << to_string(kind) << ", head " << k;
      EXPECT_LT((loss - wanted[size_t(k - 1)].losses).abs().max().item<float>(), 1e-6)
          << to_string(kind) << ", head " << k;
    }
    EXPECT_EQ(signals.at("loss").select(1, S - 2).select(1, 1).abs().sum().item<float>(), 0) << "there is no target";
  }
}

TEST_F(FrozenHeadsTest, OfTheFirstHeadAreThoseOfAModelWithOne) {
  const MicroBatch micro = batch_of(some_answers, S, heads);
  FrozenModel one(test::tiny_model(experiment_, Heads::first, nullptr, 3, rank_.channels), 16);
  const auto wanted = one.signals(micro, {"loss", "entropy"});
  for (const auto& [name, signal] : model(rank_.channels)->signals(micro, {"loss", "entropy"}))
    EXPECT_TRUE(at::equal(signal.select(2, 0), wanted.at(name))) << name;
}

TEST_F(FrozenHeadsTest, AreTheSameWherePositionsOrFeaturesAreDivided) {
  experiment_.model.heads = experiment_.model.kv_heads = 4;
  const MicroBatch micro = batch_of(some_answers, S, heads);
  for (const FutureHeads kind : {FutureHeads::parallel, FutureHeads::chained, FutureHeads::shared}) {
    experiment_.model.future_heads = kind;
    const auto wanted = model(rank_.channels)->signals(micro, {"loss", "entropy"});
    for (const auto& [sequence, tensor] : {std::pair{2, 1}, {1, 2}, {4, 1}})
      test::on_ranks(sequence * tensor, [&, sequence = sequence, tensor = tensor](Channels& channels) {
        channels.share_sequences(sequence, tensor);
        for (const auto& [name, signal] : model(channels)->signals(micro, {"loss", "entropy"}))
          EXPECT_LT((signal - wanted.at(name)).abs().max().item<float>(), 1e-5)
              << name << ", sequence " << sequence << ", tensor " << tensor;
      });
  }
}

TEST_F(FrozenHeadsTest, AreReadBackBitForBitAndServeALongerBatch) {
  const MicroBatch micro = batch_of(some_answers, S, heads);
  const auto computed = opened(rank_.channels).compute_and_cache(micro);
  const auto kept = opened(rank_.channels).read_cached(micro);
  ASSERT_TRUE(kept);
  for (const auto& [name, signal] : computed)
    EXPECT_TRUE(at::equal(kept->at(name).narrow(0, 0, 2), signal.narrow(0, 0, 2))) << name;
  EXPECT_FALSE(FrozenSignalsTest::opened("heads").read_cached(micro)) << "records of another size were read";

  opened(rank_.channels).compute_and_cache(batch_of(some_answers, 8, heads));
  const auto longer = opened(rank_.channels).read_cached(micro);
  ASSERT_TRUE(longer);
  for (const auto& [name, signal] : computed)
    for (int64_t k = 1; k <= heads; ++k)  // up to the last token, which predicts padding
      EXPECT_LT((longer->at(name)[0] - signal[0]).narrow(0, 0, 7 - k).select(1, k - 1).abs().max().item<float>(), 1e-5)
          << name << ", head " << k;
}

TEST_F(FrozenSignalsTest, ThatAreDamagedOrOfAnotherWindowAreNotUsed) {
  MicroBatch micro = batch_of(some_answers, S, 3);
  opened().compute_and_cache(micro);
  micro.windows[1] = 7;
  EXPECT_FALSE(opened().read_cached(micro)) << "one window of three is missing";
  micro.windows[1] = 1;
  ASSERT_TRUE(opened().read_cached(micro));
  const fs::path file = stores().at("loss")->file();
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekp(4096 + 5);
  bytes.put('x');
  bytes.close();
  EXPECT_FALSE(opened().read_cached(micro));
}

TEST_F(FrozenSignalsTest, AreReadOnceSoThatARecordMayDisappearAfterwards) {
  const std::vector<MicroBatch> micros{batch_of(some_answers, S, 3)};
  const auto computed = opened().compute_and_cache(micros[0]);
  FrozenSignals::Models models;
  models.push_back(std::make_unique<FrozenCache>(opened()));
  FrozenSignals signals(models, micros);
  EXPECT_EQ(signals.missing(), std::vector<double>{0});
  fs::resize_file(stores().at("loss")->file(), 4096);  // the header without a record
  ASSERT_FALSE(models[0]->read_cached(micros[0]));
  const auto known = signals.of(0);
  EXPECT_EQ(builds_, 1) << "another rank would not have run the model";
  ASSERT_EQ(known.size(), 2U);
  for (const auto& [name, signal] : computed)
    EXPECT_TRUE(at::equal(known.at(name).narrow(0, 0, 2), signal.narrow(0, 0, 2))) << name;
}

TEST_F(FrozenSignalsTest, AreComputedWhereThisRankOrAnotherLacksThem) {
  std::vector<MicroBatch> micros{batch_of(some_answers, S, 3), batch_of({{{2, 7, 1}, 1}}, S, 3)};
  micros[1].windows = {7};
  opened().compute_and_cache(micros[0]);
  FrozenSignals::Models models;
  models.push_back(std::make_unique<FrozenCache>(opened()));
  models.push_back(std::make_unique<FrozenCache>(opened("empty")));
  FrozenSignals signals(models, micros);
  EXPECT_EQ(signals.missing(), (std::vector<double>{0, 1, 1, 1}));
  EXPECT_EQ(signals.of(0).size(), 2U);
  EXPECT_EQ(builds_, 2) << "of the second cache alone";
  signals.missing()[0] = 1;  // on another rank
  signals.of(0);
  EXPECT_EQ(builds_, 3);
  EXPECT_EQ(signals.of(1).at("reference.loss").size(0), 1);
}

TEST_F(FrozenSignalsTest, WithoutStoresAreComputedEachTime) {
  FrozenCache signals("reference", {"loss"},
                      [this] {
                        return std::make_unique<FrozenModel>(
                            test::tiny_model(experiment_, Heads::first, nullptr, 3, rank_.channels), 16);
                      },
                      {});
  const MicroBatch micro = batch_of(some_answers, S, 3);
  signals.compute_and_cache(micro);
  EXPECT_FALSE(signals.read_cached(micro));
}

TEST_F(FrozenSignalsTest, DoNotChangeATrainingAndASecondOneBuildsNoModel) {
  const auto losses_of = [&](const std::string& store) {
    TinyTraining training(experiment_, test::keeps_excess(), rank_.channels,
                          {.stores = [&] { return store.empty() ? FrozenCache::Stores{} : only_loss(stores(store)); },
                           .on_build = [&] { ++builds_; }});
    std::vector<double> losses;
    for (int i = 0; i < 4; ++i) losses.push_back(training->step().loss);
    return losses;
  };
  const auto without = losses_of("");
  EXPECT_EQ(builds_, 1);
  EXPECT_EQ(losses_of("one"), without);
  EXPECT_EQ(builds_, 2);
  EXPECT_EQ(losses_of("one"), without);
  EXPECT_EQ(builds_, 2) << "everything is cached";
}

TEST_F(FrozenSignalsTest, MissingOnOneRankAreComputedByAll) {
  const auto run = [&](const std::string& of_rank0, const std::string& of_rank1) {
    std::array<std::vector<double>, 2> losses;
    builds_ = 0;
    test::on_ranks(2, [&](Channels& channels) {
      TinyTraining training(experiment_, test::keeps_excess(), channels,
                            {.stores = [&] { return only_loss(stores(channels.rank() == 0 ? of_rank0 : of_rank1)); },
                             .on_build = [&] { ++builds_; }});
      for (int i = 0; i < 3; ++i) losses[size_t(channels.rank())].push_back(training->step().loss);
    });
    EXPECT_EQ(losses[0], losses[1]);
    return losses[0];
  };
  const auto first = run("shared", "shared");
  EXPECT_EQ(builds_, 2);
  EXPECT_EQ(run("shared", "shared"), first);
  EXPECT_EQ(builds_, 0);
  EXPECT_EQ(run("shared", "empty"), first);
  EXPECT_EQ(builds_, 2) << "a frozen model is sharded: all ranks run it, or none";
}

}  // namespace
}  // namespace wmtp
