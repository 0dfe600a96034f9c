#include "shard/sharded_model.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "../../support/ranks.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::on_ranks;
using test::OneRank;

class Everything : public Adapter {
 public:
  bool trains(const std::string&) const override { return true; }
};
class NormsAlone : public Adapter {
 public:
  bool trains(const std::string& name) const override { return name.ends_with("norm.weight"); }
};

ModelConfig small() {
  ModelConfig model;
  model.dim = 24;
  model.layers = 3;
  model.heads = 2;
  model.kv_heads = 1;
  model.ffn_dim = 40;
  model.vocab_size = 33;
  model.future_tokens = 2;
  return model;
}

ShardedModelRequest request_for(const ModelConfig& model, const Adapter& adapter, Strategy strategy) {
  ShardedModelRequest request;
  request.layout.model = &model;
  request.layout.adapter = &adapter;
  request.options.strategy = strategy;
  request.positions = 8;
  return request;
}

using Values = std::map<std::string, Tensor>;

/// Every parameter after initialize(seed), put together from the parts of all ranks.
Values first_values(int ranks, Strategy strategy, int64_t seed) {
  const ModelConfig model = small();
  const Everything everything;
  std::mutex mutex;
  Values values;
  on_ranks(ranks, [&](Channels& channels) {
    ShardedModel sharded(request_for(model, everything, strategy), channels);
    sharded.initialize(seed);
    const std::lock_guard lock(mutex);
    for (ParameterGroup* group : sharded.trained_groups())
      group->for_each_part(group->master(), [&](const Placed& placed, int64_t begin, const Tensor& part) {
        Tensor& whole = values.try_emplace(placed.spec.name, at::full({placed.count}, NAN)).first->second;
        whole.narrow(0, begin, part.numel()).copy_(part);
      });
  });
  return values;
}

TEST(ShardedModel, TheFirstValuesAreTheSameForEveryCut) {
  const Values whole = first_values(1, Strategy::full_shard, 42);
  for (const auto& [ranks, strategy] : {std::pair{2, Strategy::full_shard}, std::pair{3, Strategy::full_shard},
                                        std::pair{3, Strategy::shard_grad_op}, std::pair{2, Strategy::no_shard}}) {
    const Values cut = first_values(ranks, strategy, 42);
    ASSERT_EQ(cut.size(), whole.size());
    for (const auto& [name, value] : whole)
      EXPECT_TRUE(at::equal(cut.at(name), value)) << name << " on " << ranks << " ranks, " << to_string(strategy);
  }
}

TEST(ShardedModel, TheFirstValuesFollowTheSeedAndTheName) {
  const Values one = first_values(1, Strategy::full_shard, 1), two = first_values(1, Strategy::full_shard, 2);
  EXPECT_FALSE(at::equal(one.at("output.weight"), two.at("output.weight")));
  EXPECT_FALSE(at::equal(one.at("output.weight"), one.at("tok_embeddings.weight")));
  EXPECT_TRUE(at::equal(one.at("norm.weight"), at::ones({24})));
}

TEST(ShardedModel, TheFirstValuesAreNormalWithTheLayoutsDeviation) {
  const Values values = first_values(1, Strategy::full_shard, 3);
  const Tensor embedding = values.at("tok_embeddings.weight"), w2 = values.at("layers.0.feed_forward.w2.weight");
  EXPECT_NEAR(embedding.std().item<double>(), 0.02, 0.002);
  EXPECT_NEAR(embedding.mean().item<double>(), 0.0, 0.002);
  EXPECT_NEAR(w2.std().item<double>(), 0.02 / std::sqrt(6.0), 0.001);
  const double within_one = (embedding.abs() < 0.02).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(within_one, 0.683, 0.05);
}

TEST(ShardedModel, FillAsksForThePartsOfThisRankAndLeavesWhatIsNotThere) {
  const ModelConfig model = small();
  const Everything everything;
  std::mutex mutex;
  std::map<std::string, int64_t> asked;
  on_ranks(2, [&](Channels& channels) {
    ShardedModel sharded(request_for(model, everything, Strategy::full_shard), channels);
    sharded.fill([&](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
      const std::lock_guard lock(mutex);
      asked[spec.name] += count;
      if (spec.name == "norm.weight") return false;
      for (int64_t i = 0; i < count; ++i) out[i] = float(begin + i);
      return true;
    });
    ShardUnit& output = sharded.unit("output");
    output.ready();
    EXPECT_TRUE(at::equal(sharded.weight("output.weight").weight().flatten(), at::arange(33 * 24, at::kFloat)));
    output.release();
    ShardUnit& norm = sharded.unit("norm");
    norm.ready();
    EXPECT_TRUE(at::equal(sharded.weight("norm.weight").weight(), at::zeros({24})));
    norm.release();
  });
  EXPECT_EQ(asked.at("output.weight"), 33 * 24) << "each element is read by one rank";
  EXPECT_EQ(int64_t(asked.size()), 3 + 3 * 9);
}

TEST(ShardedModel, KeepsTrainedAndFrozenParametersOfAUnitApart) {
  const ModelConfig model = small();
  const NormsAlone norms;
  OneRank rank;
  ShardedModel sharded(request_for(model, norms, Strategy::full_shard), rank.channels);
  EXPECT_EQ(sharded.unit("layers.0").groups().size(), 2U);
  EXPECT_TRUE(sharded.weight("layers.0.ffn_norm.weight").trains());
  EXPECT_FALSE(sharded.weight("layers.0.attention.wq.weight").trains());
  EXPECT_EQ(sharded.num_parameters(/*trained_only=*/true), 24 * (2 * 3 + 1));
  EXPECT_EQ(sharded.num_parameters(/*trained_only=*/false), num_parameters(model));
}

}  // namespace
}  // namespace wmtp
