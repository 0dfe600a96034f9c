#include "shard/parameter_group.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "model/alignment.hpp"
#include "support/plain_store.hpp"
#include "support/ranks.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;
using test::on_ranks;

/// A norm, a matrix that decays, a bias, another matrix: an order in which decay must sort them.
std::vector<ParameterSpec> some_parameters(bool trains = true) {
  const Init init{Init::Kind::normal, 0.02};
  return {{"norm", {10}, init, false, trains},
          {"first", {5, 20}, init, true, trains},
          {"bias", {1, 1}, init, false, trains},
          {"second", {64, 3}, init, true, trains}};
}

int index_of(const ParameterGroup& group, const std::string& name) {
  for (size_t i = 0; i < group.parameters().size(); ++i)
    if (group.parameters()[i].spec.name == name) return int(i);
  throw std::logic_error("no parameter " + name);
}

/// The parts of `flat` on several ranks, assembled by name.
class Collected {
 public:
  void take(const ParameterGroup& group, const Tensor& flat) {
    const std::lock_guard lock(mutex_);
    group.for_each_part(flat, [&](const FlatParameter& placed, int64_t begin, const Tensor& part) {
      Tensor& whole = values_.try_emplace(placed.spec.name, at::full({placed.count}, NAN)).first->second;
      whole.narrow(0, begin, part.numel()).copy_(part);
    });
  }
  const Tensor& operator[](const std::string& name) const { return values_.at(name); }

 private:
  std::mutex mutex_;
  std::map<std::string, Tensor> values_;
};

TEST(ParameterGroup, AlignsParametersAndPlacesDecayingOnesFirst) {
  SingleRank rank;
  ParameterGroup group("unit", some_parameters(), {}, rank.channels);
  std::vector<std::string> names;
  int64_t end = 0;
  for (const FlatParameter& placed : group.parameters()) {
    names.push_back(placed.spec.name);
    EXPECT_EQ(placed.offset % 64, 0) << placed.spec.name;
    EXPECT_GE(placed.offset, end) << placed.spec.name;
    end = placed.offset + placed.count;
  }
  EXPECT_EQ(names, (std::vector<std::string>{"first", "second", "norm", "bias"}));
  EXPECT_EQ(group.shard_begin(), 0);
  EXPECT_GE(group.shard_size(), end);
  EXPECT_EQ(group.master().numel(), group.shard_size());
  EXPECT_EQ(group.master().scalar_type(), at::kFloat);
}

TEST(ParameterGroup, SplitsItsShardByOptimizerSettings) {
  std::vector<ParameterSpec> parameters = some_parameters();
  parameters[1].lr_scale = 16;  // "first" is then between "second", which also decays, and the others
  for (const int ranks : {1, 2, 3}) {
    Collected lr, decays;
    on_ranks(ranks, [&](Channels& channels) {
      const ParameterGroup group("unit", parameters, {}, channels);
      Tensor lr_of = at::full({group.shard_size()}, NAN), decay_of = at::full({group.shard_size()}, NAN);
      int64_t end = 0;
      for (const Segment& segment : group.segments()) {
        EXPECT_EQ(segment.begin, end);
        EXPECT_GT(segment.end, segment.begin);
        end = segment.end;
        lr_of.narrow(0, segment.begin, segment.end - segment.begin).fill_(segment.lr_scale);
        decay_of.narrow(0, segment.begin, segment.end - segment.begin).fill_(segment.decays ? 1 : 0);
      }
      EXPECT_EQ(end, group.shard_size());
      EXPECT_LE(group.segments().size(), 3U);
      lr.take(group, lr_of);
      decays.take(group, decay_of);
    });
    for (const ParameterSpec& spec : parameters) {
      EXPECT_TRUE(at::equal(lr[spec.name], at::full({spec.count()}, spec.lr_scale))) << spec.name << " on " << ranks;
      EXPECT_TRUE(at::equal(decays[spec.name], at::full({spec.count()}, spec.decays ? 1.0 : 0.0))) << spec.name;
    }
  }
}

TEST(ParameterGroup, HoldsFrozenParametersInTheComputeDtypeAndTrainedOnesInFp32) {
  SingleRank rank;
  const GroupOptions options{Strategy::full_shard, at::kBFloat16, at::kCPU};
  ParameterGroup frozen("frozen", some_parameters(false), options, rank.channels);
  ParameterGroup trained("trained", some_parameters(true), options, rank.channels);
  EXPECT_EQ(frozen.master().scalar_type(), at::kBFloat16);
  EXPECT_EQ(trained.master().scalar_type(), at::kFloat);
  trained.master().fill_(1.0 / 3);
  trained.master_changed();
  trained.finish_gather();
  EXPECT_EQ(trained.weight(0).scalar_type(), at::kBFloat16);
  EXPECT_TRUE(at::equal(trained.weight(0), at::full({5, 20}, 1.0 / 3, at::kBFloat16)));
}

TEST(ParameterGroup, FrozenWeightsAreOffloadedOnlyWithAllAndThenFreedAfterEachUse) {
  for (const Strategy strategy : {Strategy::no_shard, Strategy::shard_grad_op, Strategy::full_shard})
    on_ranks(2, [&](Channels& channels) {
      for (const CpuOffload offload : {CpuOffload::trained, CpuOffload::all}) {
        GroupOptions options{strategy, at::kBFloat16, at::kCPU};
        options.offload = offload;
        ParameterGroup group("unit", some_parameters(false), options, channels);
        group.master().fill_(0.25);
        for (int use = 0; use < 2; ++use) {
          group.finish_gather();
          EXPECT_TRUE(at::equal(group.weight(0), at::full({5, 20}, 0.25, at::kBFloat16))) << to_string(strategy);
          group.release();
          EXPECT_EQ(group.gathered(), offload == CpuOffload::trained && strategy != Strategy::full_shard)
              << to_string(strategy);
        }
      }
    });
}

TEST(ParameterGroup, AnOffloadedMasterIsCopiedAgainAfterEachChange) {
  for (const Strategy strategy :
       {Strategy::no_shard, Strategy::shard_optimizer, Strategy::shard_grad_op, Strategy::full_shard})
    on_ranks(2, [&](Channels& channels) {
      GroupOptions options{strategy, at::kBFloat16, at::kCPU};
      options.offload = CpuOffload::trained;
      ParameterGroup group("unit", some_parameters(), options, channels);
      for (const double value : {0.25, 0.75}) {
        group.master().fill_(value);
        group.master_changed();
        for (int use = 0; use < 2; ++use) {
          group.finish_gather();
          EXPECT_TRUE(at::equal(group.weight(0), at::full({5, 20}, value, at::kBFloat16))) << to_string(strategy);
          group.release();
        }
      }
      EXPECT_EQ(group.master().scalar_type(), at::kFloat);
    });
}

TEST(ParameterGroup, ReturnsEachWeightWithItsShape) {
  SingleRank rank;
  ParameterGroup group("unit", some_parameters(), {}, rank.channels);
  for (size_t i = 0; i < group.parameters().size(); ++i) {
    const FlatParameter& placed = group.parameters()[i];
    group.master().narrow(0, placed.offset, placed.count).copy_(at::arange(placed.count) + 1000 * double(i));
  }
  group.master_changed();
  group.finish_gather();
  for (size_t i = 0; i < group.parameters().size(); ++i) {
    const FlatParameter& placed = group.parameters()[i];
    const Tensor expected = (at::arange(placed.count, at::kFloat) + 1000 * double(i)).view(placed.spec.shape);
    EXPECT_TRUE(at::equal(group.weight(int(i)), expected)) << placed.spec.name;
  }
}

TEST(ParameterGroup, RefusesAccessToAWeightThatIsNotGathered) {
  SingleRank rank;
  ParameterGroup group("unit", some_parameters(), {}, rank.channels);
  EXPECT_THROW(group.weight(0), c10::Error);
}

TEST(ParameterGroup, SumsProductsRowsAndValuesInAnyOrder) {
  at::manual_seed(2);
  SingleRank rank;
  ParameterGroup group("unit", some_parameters(), {}, rank.channels);
  const int first = index_of(group, "first"), second = index_of(group, "second"), norm = index_of(group, "norm");
  const Tensor left = at::randn({7, 5}), right = at::randn({7, 20}), value = at::randn({10});
  const Tensor rows = at::tensor(std::vector<int64_t>{3, 0, 3}), values = at::randn({3, 3}),
               product = at::randn({64, 3});
  for (int twice = 0; twice < 2; ++twice) {
    group.add_product(first, left, right);
    group.add_gradient(norm, value);
    if (twice) group.add_gradient(second, product);
    group.add_rows(second, rows, values);
  }
  group.start_reduce(true);
  group.finish_reduce();
  Collected gradient;
  gradient.take(group, group.gradient());
  EXPECT_LT(distance(gradient["first"], 2 * at::mm(left.t(), right).flatten()), 1e-6);
  EXPECT_LT(distance(gradient["norm"], 2 * value), 1e-6);
  const Tensor expected = (product + 2 * at::zeros({64, 3}).index_add(0, rows, values)).flatten();
  EXPECT_LT(distance(gradient["second"], expected), 1e-6);
  EXPECT_TRUE(at::equal(gradient["bias"], at::zeros({1}))) << "nothing was written to it";
}

TEST(ParameterGroup, SumsProductsOfBf16InFp32) {
  SingleRank rank;
  const GroupOptions options{Strategy::full_shard, at::kBFloat16, at::kCPU};
  ParameterGroup group("unit", some_parameters(), options, rank.channels);
  const Tensor one = at::ones({1, 5}, at::kBFloat16), ones = at::ones({1, 20}, at::kBFloat16);
  const int first = index_of(group, "first");
  for (int i = 0; i < 300; ++i) group.add_product(first, one, ones);  // in bf16 the sum would stop at 256
  group.start_reduce(true);
  group.finish_reduce();
  Collected gradient;
  gradient.take(group, group.gradient());
  EXPECT_TRUE(at::equal(gradient["first"], at::full({100}, 300.0)));
}

TEST(ParameterGroup, AccumulatesOverMicroBatchesUntilTheGradientIsDropped) {
  for (const Strategy strategy :
       {Strategy::no_shard, Strategy::shard_optimizer, Strategy::shard_grad_op, Strategy::full_shard}) {
    SingleRank rank;
    ParameterGroup group("unit", some_parameters(), {strategy}, rank.channels);
    const int norm = index_of(group, "norm");
    for (const bool last : {false, false, true}) {
      group.add_gradient(norm, at::full({10}, 1.5));
      group.start_reduce(last);
      group.finish_reduce();
    }
    Collected gradient;
    gradient.take(group, group.gradient());
    EXPECT_TRUE(at::equal(gradient["norm"], at::full({10}, 4.5))) << to_string(strategy);
    group.drop_gradient();
    EXPECT_FALSE(group.gradient().defined());
    group.start_reduce(true);
    group.finish_reduce();
    EXPECT_TRUE(at::equal(group.gradient(), at::zeros({group.shard_size()}))) << "a step that wrote nothing";
  }
}

TEST(ParameterGroup, UnwrittenGradientsAreZeroInEveryMicroBatch) {
  for (const Strategy strategy : {Strategy::no_shard, Strategy::full_shard}) {
    SingleRank rank;
    ParameterGroup group("unit", some_parameters(), {strategy}, rank.channels);
    for (const bool last : {false, true}) {
      group.add_gradient(index_of(group, "norm"), at::ones({10}));
      group.start_reduce(last);
      group.finish_reduce();
    }
    EXPECT_EQ(group.gradient().sum().item<float>(), 20) << to_string(strategy);
  }
}

/// A strategy and a number of ranks.
struct Cut {
  Strategy strategy;
  std::vector<int> ranks{2, 3};
  int group_size = 0;

  GroupOptions options() const { return {strategy, at::kFloat, at::kCPU, group_size}; }
  int holders(int size) const {
    return strategy == Strategy::no_shard ? size : strategy == Strategy::hybrid_shard ? size / group_size : 1;
  }
  std::string name() const {
    return to_string(strategy) + (group_size > 0 ? "_of_" + std::to_string(group_size) : std::string());
  }
};
void PrintTo(const Cut& cut, std::ostream* out) { *out << cut.name(); }

void reduce(ParameterGroup& group, bool last) {
  group.start_reduce(last);
  group.finish_reduce();
  group.finish_replicate_reduce();
  group.finish_replicate_gather();
}

class ParameterGroupOnRanks : public testing::TestWithParam<Cut> {};

TEST_P(ParameterGroupOnRanks, ARankWithoutAGradientTakesPartInTheReduce) {
  Collected gradient;
  on_ranks(GetParam().ranks.back(), [&](Channels& channels) {
    ParameterGroup group("unit", some_parameters(), GetParam().options(), channels);
    for (const bool last : {false, true}) {
      if (channels.rank() == 1) group.add_gradient(index_of(group, "norm"), at::ones({10}));
      reduce(group, last);
    }
    gradient.take(group, group.gradient());
  });
  EXPECT_TRUE(at::equal(gradient["norm"], at::full({10}, 2.0)));
  EXPECT_TRUE(at::equal(gradient["first"], at::zeros({100})));
}

TEST_P(ParameterGroupOnRanks, SumsTheGradientsOfAllRanksAndMicroBatches) {
  for (const int size : GetParam().ranks) {
    Collected gradient;
    on_ranks(size, [&](Channels& channels) {
      ParameterGroup group("unit", some_parameters(), GetParam().options(), channels);
      for (const bool last : {false, true}) {
        for (size_t i = 0; i < group.parameters().size(); ++i) {
          const FlatParameter& placed = group.parameters()[i];
          group.add_gradient(int(i), (at::arange(placed.count) * (channels.rank() + 1)).view(placed.spec.shape));
        }
        reduce(group, last);
      }
      ASSERT_EQ(group.gradient().numel(), group.shard_size());
      gradient.take(group, group.gradient());
    });
    const int ranks_sum = size * (size + 1) / 2;
    for (const ParameterSpec& spec : some_parameters())
      EXPECT_TRUE(at::equal(gradient[spec.name], at::arange(spec.count(), at::kFloat) * (2 * ranks_sum)))
          << spec.name << " on " << size << " ranks";
  }
}

TEST_P(ParameterGroupOnRanks, GathersWholeWeightsFromShards) {
  on_ranks(GetParam().ranks.front(), [&](Channels& channels) {
    ParameterGroup group("unit", some_parameters(), GetParam().options(), channels);
    const auto fill = [&](double factor) {
      group.for_each_part(group.master(), [&](const FlatParameter& placed, int64_t begin, Tensor part) {
        part.copy_((at::arange(begin, begin + part.numel()) + double(placed.offset)) * factor);
      });
      group.master_changed();
    };
    const auto expect_weights = [&](double factor) {
      for (size_t i = 0; i < group.parameters().size(); ++i) {
        const FlatParameter& placed = group.parameters()[i];
        const Tensor expected = (at::arange(placed.count, at::kFloat) + double(placed.offset)) * factor;
        EXPECT_TRUE(at::equal(group.weight(int(i)).flatten(), expected)) << placed.spec.name;
      }
    };
    const int64_t whole_size = group.gather_master().numel();
    fill(1);
    group.start_gather();
    group.finish_gather();
    expect_weights(1);
    group.release();
    EXPECT_EQ(group.gathered(), keeps_gathered(GetParam().strategy) || group.master().numel() == whole_size);
    fill(3);
    group.finish_gather();
    expect_weights(3);
    const Tensor whole = group.gather_master();
    for (const FlatParameter& placed : group.parameters())
      EXPECT_TRUE(at::equal(whole.narrow(0, placed.offset, placed.count),
                            (at::arange(placed.count, at::kFloat) + double(placed.offset)) * 3));
  });
}

TEST_P(ParameterGroupOnRanks, EveryMasterElementIsHeldOnceOrByEveryReplica) {
  std::mutex mutex;
  int64_t held = 0, counted = 0;
  const int size = GetParam().ranks.back();
  on_ranks(size, [&](Channels& channels) {
    const ParameterGroup group("unit", some_parameters(), GetParam().options(), channels);
    int64_t mine = 0;
    group.for_each_part(at::zeros({group.shard_size()}),
                        [&](const FlatParameter&, int64_t, const Tensor& part) { mine += part.numel(); });
    const std::lock_guard lock(mutex);
    held += mine;
    if (group.is_first_replica()) counted += mine;
  });
  const int64_t count = 10 + 100 + 1 + 192;
  EXPECT_EQ(held, GetParam().holders(size) * count);
  EXPECT_EQ(counted, count) << "of the norm over all ranks";
}

TEST_P(ParameterGroupOnRanks, ReplicasOfAShardGetTheSameBits) {
  // With three or more numbers the sum depends on the order.
  std::mutex mutex;
  std::map<int64_t, Tensor> gradient_from;  // by the beginning of the shard
  on_ranks(GetParam().ranks.back(), [&](Channels& channels) {
    ParameterGroup group("unit", some_parameters(), GetParam().options(), channels);
    for (const bool last : {false, true}) {
      for (size_t i = 0; i < group.parameters().size(); ++i) {
        const FlatParameter& placed = group.parameters()[i];
        const Tensor numbers = (at::arange(placed.count, at::kFloat) * (channels.rank() + 2)).sin();
        group.add_gradient(int(i), numbers.view(placed.spec.shape));
      }
      reduce(group, last);
    }
    const std::lock_guard lock(mutex);
    const auto [place, is_first] = gradient_from.try_emplace(group.shard_begin(), group.gradient());
    EXPECT_TRUE(at::equal(place->second, group.gradient())) << "rank " << channels.rank();
  });
}

/// bf16 has 8 bits: rounding has a relative error of at most 2^-8. Every rank's part is rounded once, a sum over a
/// replicate group once more, and so is a shard group's sum before it. Sums are computed in fp32.
TEST_P(ParameterGroupOnRanks, GradientsReducedInBf16AreRoundedOncePerExchange) {
  const int size = GetParam().ranks.back();
  const int holders = GetParam().holders(size);
  const int times = holders == 1 ? 1 : holders == size ? 2 : 3;
  const double bound = std::pow(1 + 0x1p-8, times) - 1 + 1e-6;
  Collected gradient;
  const auto numbers = [](int64_t count, int rank) {
    return ((at::arange(count, at::kFloat) + 1) * (0.7 * rank + 1)).sin() * (rank + 1);
  };
  on_ranks(size, [&](Channels& channels) {
    GroupOptions options = GetParam().options();
    options.param_dtype = options.reduce_dtype = at::kBFloat16;
    ParameterGroup group("unit", some_parameters(), options, channels);
    for (size_t i = 0; i < group.parameters().size(); ++i) {
      const FlatParameter& placed = group.parameters()[i];
      group.add_gradient(int(i), numbers(placed.count, channels.rank()).view(placed.spec.shape));
    }
    reduce(group, true);
    EXPECT_EQ(group.gradient().scalar_type(), at::kFloat);
    gradient.take(group, group.gradient());
  });
  double worst = 0;
  for (const ParameterSpec& spec : some_parameters()) {
    Tensor sum = at::zeros({spec.count()}, at::kDouble), sizes = at::zeros_like(sum);
    for (int rank = 0; rank < size; ++rank) {
      sum += numbers(spec.count(), rank);
      sizes += numbers(spec.count(), rank).abs();
    }
    const Tensor share = (gradient[spec.name].to(at::kDouble) - sum).abs() / sizes;
    worst = std::max(worst, share.max().item<double>());
  }
  EXPECT_LE(worst, bound);
  EXPECT_GT(worst, 0x1p-12) << "nothing was rounded";
}

TEST(ParameterGroup, GradientsReducedInBf16AreSummedInFp32) {
  Collected gradient;
  on_ranks(3, [&](Channels& channels) {
    GroupOptions options;
    options.param_dtype = options.reduce_dtype = at::kBFloat16;
    ParameterGroup group("unit", some_parameters(), options, channels);
    group.add_gradient(index_of(group, "norm"), at::full({10}, channels.rank() == 0 ? 256.0 : 1.0));
    reduce(group, true);
    gradient.take(group, group.gradient());
  });
  EXPECT_TRUE(at::equal(gradient["norm"], at::full({10}, 258.0))) << "bf16 has no number between 256 and 258";
}

INSTANTIATE_TEST_SUITE_P(All, ParameterGroupOnRanks,
                         testing::Values(Cut{Strategy::no_shard}, Cut{Strategy::shard_optimizer},
                                         Cut{Strategy::shard_grad_op}, Cut{Strategy::full_shard},
                                         Cut{Strategy::hybrid_shard, {4, 6}, 2}, Cut{Strategy::hybrid_shard, {2, 3}, 1},
                                         Cut{Strategy::hybrid_shard, {3}, 3}),
                         [](const auto& info) { return info.param.name(); });

}  // namespace
}  // namespace wmtp
