#include "shard/sharded_model.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "support/ranks.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::on_ranks;

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
  request.spec.model = &model;
  request.spec.adapter = &adapter;
  request.options.strategy = strategy;
  request.options.shard_group_size = 2;  // of hybrid_shard
  request.sequence_length = 8;
  return request;
}

using Values = std::map<std::string, Tensor>;

/// Every parameter after initialize(seed), assembled from all ranks.
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
      group->for_each_part(group->master(), [&](const FlatParameter& placed, int64_t begin, const Tensor& part) {
        Tensor& whole = values.try_emplace(placed.spec.name, at::full({placed.count}, NAN)).first->second;
        whole.narrow(0, begin, part.numel()).copy_(part);
      });
  });
  return values;
}

TEST(ShardedModel, InitialValuesAreTheSameInEveryLayout) {
  const Values whole = first_values(1, Strategy::full_shard, 42);
  for (const auto& [ranks, strategy] :
       {std::pair{2, Strategy::full_shard}, std::pair{3, Strategy::full_shard}, std::pair{3, Strategy::shard_grad_op},
        std::pair{2, Strategy::no_shard}, std::pair{4, Strategy::hybrid_shard}}) {
    const Values cut = first_values(ranks, strategy, 42);
    ASSERT_EQ(cut.size(), whole.size());
    for (const auto& [name, value] : whole)
      EXPECT_TRUE(at::equal(cut.at(name), value)) << name << " on " << ranks << " ranks, " << to_string(strategy);
  }
}

TEST(ShardedModel, InitialValuesDependOnSeedAndName) {
  const Values one = first_values(1, Strategy::full_shard, 1), two = first_values(1, Strategy::full_shard, 2);
  EXPECT_FALSE(at::equal(one.at("output.weight"), two.at("output.weight")));
  EXPECT_FALSE(at::equal(one.at("output.weight"), one.at("tok_embeddings.weight")));
  EXPECT_TRUE(at::equal(one.at("norm.weight"), at::ones({24})));
}

TEST(ShardedModel, InitialValuesAreNormalWithTheLayoutsDeviation) {
  const Values values = first_values(1, Strategy::full_shard, 3);
  const Tensor embedding = values.at("tok_embeddings.weight"), w2 = values.at("layers.0.feed_forward.w2.weight");
  EXPECT_NEAR(embedding.std().item<double>(), 0.02, 0.002);
  EXPECT_NEAR(embedding.mean().item<double>(), 0.0, 0.002);
  EXPECT_NEAR(w2.std().item<double>(), 0.02 / std::sqrt(6.0), 0.001);
  const double within_one = (embedding.abs() < 0.02).to(at::kDouble).mean().item<double>();
  EXPECT_NEAR(within_one, 0.683, 0.05);
}

TEST(ShardedModel, FillReadsThePartsOfThisRankAndKeepsTheRest) {
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
    output.finish_gather();
    EXPECT_TRUE(at::equal(sharded.weight("output.weight").weight().flatten(), at::arange(33 * 24, at::kFloat)));
    output.release();
    ShardUnit& norm = sharded.unit("norm");
    norm.finish_gather();
    EXPECT_TRUE(at::equal(sharded.weight("norm.weight").weight(), at::zeros({24})));
    norm.release();
  });
  EXPECT_EQ(asked.at("output.weight"), 33 * 24) << "each element is read by one rank";
  EXPECT_EQ(int64_t(asked.size()), 3 + 3 * 9);
}

TEST(ShardedModel, DividesItsVocabularyAmongTensorRanksIfTheyHaveEqualParts) {
  const Everything everything;
  for (const auto& [vocab_size, is_tied] : {std::pair{34, false}, std::pair{33, false}, std::pair{34, true}}) {
    ModelConfig model = small();
    model.vocab_size = vocab_size;
    model.tie_word_embeddings = is_tied;
    const bool divides = vocab_size == 34;
    on_ranks(2, [&](Channels& channels) {
      channels.share_sequences(1, 2);
      const ShardedModel sharded(request_for(model, everything, Strategy::full_shard), channels);
      EXPECT_EQ(sharded.vocabulary() != nullptr, divides);
      for (const char* unit : {"tok_embeddings", "output"}) {
        const GatherScope gathered(sharded.unit(unit));
        EXPECT_EQ(sharded.weight(unit + std::string(".weight")).weight().size(0),
                  divides ? vocab_size / 2 : vocab_size);
      }
    });
  }
}

TEST(ShardedModel, SeparatesTrainedAndFrozenParametersOfAUnit) {
  const ModelConfig model = small();
  const NormsAlone norms;
  SingleRank rank;
  ShardedModel sharded(request_for(model, norms, Strategy::full_shard), rank.channels);
  EXPECT_EQ(sharded.unit("layers.0").groups().size(), 2U);
  EXPECT_TRUE(sharded.weight("layers.0.ffn_norm.weight").trains());
  EXPECT_FALSE(sharded.weight("layers.0.attention.wq.weight").trains());
  int64_t trained = 0, all = 0;
  for (const auto& unit : sharded.units())
    for (const auto& group : unit->groups())
      for (const FlatParameter& placed : group->parameters()) (group->trains() ? trained : all) += placed.count;
  EXPECT_EQ(trained, 24 * (2 * 3 + 1));
  EXPECT_EQ(trained + all, num_parameters(model));
  EXPECT_EQ(sharded.adapter_unit(), nullptr);
  EXPECT_EQ(sharded.base_fingerprint(), 0U) << "no adapter";
}

/// An adapter with the row norms of every value and output weight.
class Lengths : public LinearAdapter {
 public:
  bool trains(const std::string&) const override { return false; }
  std::vector<Param> declare(const Linear& layer) const override {
    if (!layer.name.ends_with("wv") && !layer.name.ends_with("w2")) return {};
    return {{"magnitude", {1, layer.out}, Param::Init::row_norms}};
  }
  Tensor forward(const Linear&, const Tensor& x, LinearCall& call) const override { return call.base(x); }
  Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>&) const override { return weight; }
};

class AdapterWeights : public testing::TestWithParam<std::tuple<int, Strategy, at::ScalarType>> {
 protected:
  /// Calls check(model) on every rank of the layout, after the model was drawn from a seed.
  void on_a_model(const std::function<void(ShardedModel&)>& check) {
    const auto [ranks, strategy, compute] = GetParam();
    on_ranks(ranks, [&](Channels& channels) {
      const ModelConfig model = small();
      const Lengths lengths;
      ShardedModelRequest request = request_for(model, lengths, strategy);
      request.options.param_dtype = compute;
      ShardedModel sharded(request, channels);
      sharded.initialize(9);
      check(sharded);
    });
  }
};

/// Of a model with one rank, in single precision.
uint64_t plain_fingerprint(int64_t seed) {
  SingleRank rank;
  const ModelConfig model = small();
  const Lengths lengths;
  ShardedModel sharded(request_for(model, lengths, Strategy::full_shard), rank.channels);
  sharded.initialize(seed);
  return sharded.base_fingerprint();
}

TEST_P(AdapterWeights, RowNormsAreThoseOfTheWeightsInEveryLayout) {
  on_a_model([](ShardedModel& sharded) {
    const auto check = [&] {
      ShardUnit& adapter = *sharded.adapter_unit();
      adapter.finish_gather();
      for (const char* block : {"layers.0", "layers.1", "extra_heads.0"}) {
        const GatherScope weights(sharded.unit(block));
        for (const char* layer : {".attention.wv", ".feed_forward.w2"}) {
          const std::string name = std::string(block) + layer;
          const Tensor weight = sharded.weight(name + ".weight").weight().to(at::kFloat);
          const Tensor norms = weight.norm(2, 1).unsqueeze(0);
          EXPECT_TRUE(at::allclose(sharded.weight(name + ".magnitude").weight().to(at::kFloat), norms, 5e-3, 0))
              << name;
        }
      }
      adapter.release();
    };
    check();
    sharded.fill([](const ParameterSpec& spec, int64_t, int64_t count, float* out) {  // as a file of weights would
      if (spec.init.kind == Init::Kind::row_norms) return false;
      std::fill(out, out + count, 3.0F);
      return true;
    });
    check();
  });
}

TEST_P(AdapterWeights, RowNormsThatAreReadAreKept) {
  on_a_model([](ShardedModel& sharded) {
    sharded.fill([](const ParameterSpec& spec, int64_t, int64_t count, float* out) {
      if (spec.init.kind != Init::Kind::row_norms) return false;
      std::fill(out, out + count, 7.0F);
      return true;
    });
    sharded.adapter_unit()->finish_gather();
    EXPECT_TRUE((sharded.weight("layers.0.attention.wv.magnitude").weight() == 7).all().item<bool>());
    sharded.adapter_unit()->release();
  });
}

TEST_P(AdapterWeights, TheBaseHasTheSameFingerprintInEveryLayoutAndPrecision) {
  const uint64_t wanted = plain_fingerprint(9);
  EXPECT_NE(wanted, plain_fingerprint(10));
  on_a_model([&](ShardedModel& sharded) {
    EXPECT_EQ(sharded.base_fingerprint(), wanted);
    sharded.fill([](const ParameterSpec& spec, int64_t, int64_t count, float* out) {
      if (spec.init.kind == Init::Kind::row_norms) std::fill(out, out + count, 1.0F);
      return spec.init.kind == Init::Kind::row_norms;
    });
    EXPECT_EQ(sharded.base_fingerprint(), wanted) << "the adapter changed it";
    sharded.fill([](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
      if (spec.name != "norm.weight") return false;
      std::fill(out, out + count, 1.0F);
      if (begin == 0) out[0] = 1.0F + 0x1p-23F;  // one bit of one element, below bf16's precision
      return true;
    });
    EXPECT_NE(sharded.base_fingerprint(), wanted);
  });
}

INSTANTIATE_TEST_SUITE_P(All, AdapterWeights,
                         testing::Values(std::tuple{1, Strategy::full_shard, at::kFloat},
                                         std::tuple{3, Strategy::full_shard, at::kFloat},
                                         std::tuple{2, Strategy::shard_grad_op, at::kBFloat16},
                                         std::tuple{2, Strategy::no_shard, at::kFloat},
                                         std::tuple{4, Strategy::hybrid_shard, at::kFloat}));

}  // namespace
}  // namespace wmtp
