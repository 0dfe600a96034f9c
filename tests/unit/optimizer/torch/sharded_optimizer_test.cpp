// The fused, flat, sharded optimizers against their formulas, written out in fp64.
#include "optimizer/torch/sharded_optimizer.hpp"

#include <gtest/gtest.h>

#include <mutex>

#include "checkpoint/manifest.hpp"
#include "memory/allocator.hpp"
#include "optimizer/torch/muon.hpp"
#include "support/plain_store.hpp"
#include "support/ranks.hpp"
#include "support/test_folder.hpp"

namespace wmtp {
namespace {

using at::Tensor;
using test::distance;
using test::on_ranks;

/// Muon updates the matrices except for "fast".
std::vector<ParameterSpec> some_parameters(const OptimizerConfig& config = {}) {
  const bool muon = config.kind == OptimizerKind::muon;
  return {{"norm", {50}, {}, false, true},
          {"matrix", {9, 30}, {}, true, true, 1, {}, muon},
          {"tall", {40, 5}, {}, true, true, 2, 0.3, muon},
          {"fast", {4, 30}, {}, true, true, 8},
          {"bias", {1, 1}, {}, false, true}};
}

/// Muon's iteration in fp64.
Tensor orthogonalized_by_hand(Tensor x) {
  const bool is_tall = x.size(0) > x.size(1);
  if (is_tall) x = x.t();
  x = x / x.norm();
  for (int i = 0; i < 5; ++i) {
    const Tensor gram = x.matmul(x.t());
    x = 3.4445 * x + (-4.7750 * gram + 2.0315 * gram.matmul(gram)).matmul(x);
  }
  return is_tall ? x.t() : x;
}

struct ByHand {
  Tensor value, m, v, average;
  ParameterSpec spec;
  void step(const OptimizerConfig& c, double lr, int t, const Tensor& gradient, double ema) {
    if (t == 1) average = value;
    update(c, lr, t, gradient);
    average = ema * average + (1 - ema) * value;
  }
  void update(const OptimizerConfig& c, double lr, int t, const Tensor& gradient) {
    value = value * (1 - lr * spec.weight_decay.value_or(spec.decays ? c.weight_decay : 0));
    if (c.kind == OptimizerKind::sgd) {
      m = c.momentum * m + gradient;
      value = value - lr * m;
      return;
    }
    if (spec.orthogonalizes) {
      m = c.momentum * m + (1 - c.momentum) * gradient;
      const Tensor ahead = (1 - c.momentum) * gradient + c.momentum * m;
      const auto [rows, columns] = std::pair(spec.shape[0], spec.shape[1]);
      value = value - lr * 0.2 * std::sqrt(double(std::max(rows, columns))) *
                          orthogonalized_by_hand(ahead.view({rows, columns})).reshape({-1});
      return;
    }
    m = c.beta1 * m + (1 - c.beta1) * gradient;
    v = c.beta2 * v + (1 - c.beta2) * gradient.square();
    const Tensor m_hat = m / (1 - std::pow(c.beta1, t)), v_hat = v / (1 - std::pow(c.beta2, t));
    value = value - lr * m_hat / (v_hat.sqrt() + c.eps);
  }
};

constexpr int num_steps = 5;
double lr_of(int step) { return 0.01 * step; }
double scale_of(int step) { return step % 2 ? 1.0 : 0.3; }

/// A parameter's initial value and gradient in a step: the same in every layout.
Tensor gradient_of(const ParameterSpec& spec, int step) {
  return (at::arange(spec.count(), at::kDouble) * (0.7 + step) + double(spec.count())).sin() * 0.5;
}
Tensor first_of(const ParameterSpec& spec) { return (at::arange(spec.count(), at::kDouble) * 1.3).cos(); }

constexpr double ema = 0.7;

/// Values by name, moving averages by name with "ema/".
std::map<std::string, Tensor> expected(const OptimizerConfig& config) {
  std::map<std::string, Tensor> values;
  for (const ParameterSpec& spec : some_parameters(config)) {
    const Tensor zero = at::zeros({spec.count()}, at::kDouble);
    ByHand parameter{first_of(spec), zero, zero, zero, spec};
    for (int t = 1; t <= num_steps; ++t)
      parameter.step(config, lr_of(t) * spec.lr_scale, t, gradient_of(spec, t) * scale_of(t), ema);
    values[spec.name] = parameter.value;
    values[ema_prefix + spec.name] = parameter.average;
  }
  return values;
}

/// The optimizer's result on `ranks` ranks, each of which contributes an equal share of the gradient. `weights`: the
/// dtype of gathered weights, which must be the rounded masters.
std::map<std::string, Tensor> trained(const OptimizerConfig& config, int ranks, Strategy strategy, bool offload = false,
                                      const std::optional<OptimizerStateFileOptions>& file = {},
                                      at::ScalarType weights = at::kFloat) {
  std::mutex mutex;
  std::map<std::string, Tensor> values;
  on_ranks(ranks, [&](Channels& channels) {
    GroupOptions options{strategy, weights, at::kCPU, /*shard_group_size=*/2};
    if (offload) options.offload = CpuOffload::trained;
    options.masters_in_file = file.has_value();
    ParameterGroup group("unit", some_parameters(config), options, channels);
    EXPECT_EQ(group.is_in_file(), file && weights != at::kFloat);
    ShardedOptimizer optimizer(config, {&group}, ema, file);
    group.change_master([&](const Tensor& block, int64_t end) {
      group.for_each_part(block, end, [&](const FlatParameter& placed, int64_t begin, Tensor part) {
        part.copy_(first_of(placed.spec).narrow(0, begin, part.numel()));
      });
    });
    for (int t = 1; t <= num_steps; ++t) {
      double square = 0, magnitude = 0, largest = 0;
      for (size_t i = 0; i < group.parameters().size(); ++i) {
        const ParameterSpec& spec = group.parameters()[i].spec;
        group.add_gradient(int(i), (gradient_of(spec, t) / ranks).to(at::kFloat).view(spec.shape));
        const Tensor magnitudes = gradient_of(spec, t).abs();
        square += magnitudes.square().sum().item<double>();
        magnitude += magnitudes.sum().item<double>();
        largest = std::max(largest, magnitudes.max().item<double>());
      }
      group.start_reduce(true);
      group.finish_reduce();
      group.finish_replicate_reduce();
      group.finish_replicate_gather();
      for (const auto& [norm, wanted] :
           {std::pair{Norm::l2, std::sqrt(square)}, std::pair{Norm::l1, magnitude}, std::pair{Norm::inf, largest}}) {
        const Tensor parts = channels.all_gather(optimizer.local_norm_part(norm), "the norm");
        const double found =
            combine_norm_parts(norm, {parts.const_data_ptr<double>(), parts.const_data_ptr<double>() + ranks});
        EXPECT_NEAR(found, wanted, 1e-5 * wanted) << to_string(norm) << ", " << to_string(strategy) << " on " << ranks;
      }
      optimizer.step(lr_of(t), scale_of(t));
      EXPECT_FALSE(group.gradient().defined()) << "a step drops the gradient";
      group.finish_gather();
      const Tensor masters = group.gather_master().to(weights);
      for (size_t i = 0; i < group.parameters().size(); ++i) {
        const FlatParameter& placed = group.parameters()[i];
        EXPECT_TRUE(at::equal(group.weight(int(i)).flatten(), masters.narrow(0, placed.offset, placed.count)));
      }
      group.release();
    }
    const std::lock_guard lock(mutex);
    const auto keep = [&](const std::string& prefix, const Tensor& flat, int64_t end) {
      group.for_each_part(flat, end, [&](const FlatParameter& placed, int64_t begin, const Tensor& part) {
        Tensor& whole = values.try_emplace(prefix + placed.spec.name, at::full({placed.count}, NAN)).first->second;
        whole.narrow(0, begin, part.numel()).copy_(part);
      });
    };
    optimizer.for_each_block({&optimizer.states().front()}, BlockAccess::read,
                             [&](ShardedOptimizer::State&, const StateBlock& block) {
                               for (const auto& [prefix, flat] : block.flats())
                                 keep(std::string_view(prefix) == parameter_prefix ? "" : prefix, flat, block.end);
                             });
  });
  return values;
}

void expect_formula_in_every_layout(const OptimizerConfig& config, double tolerance) {
  const auto by_hand = expected(config);
  for (const auto& [ranks, strategy] :
       {std::pair{1, Strategy::no_shard}, std::pair{2, Strategy::no_shard}, std::pair{3, Strategy::no_shard},
        std::pair{1, Strategy::full_shard}, std::pair{2, Strategy::full_shard}, std::pair{3, Strategy::full_shard},
        std::pair{4, Strategy::hybrid_shard}})
    for (const auto& [name, value] : trained(config, ranks, strategy)) {
      if (!by_hand.contains(name)) continue;  // a moment
      EXPECT_LT(distance(value, by_hand.at(name)), tolerance) << name << ", " << to_string(strategy) << " on " << ranks;
    }
}

TEST(ShardedOptimizer, IsAdamWInEveryLayout) {
  OptimizerConfig config;
  config.weight_decay = 0.2;
  expect_formula_in_every_layout(config, 1e-6);
}

TEST(ShardedOptimizer, IsMuonForMatricesInEveryLayout) {
  OptimizerConfig config;
  config.kind = OptimizerKind::muon;
  config.momentum = 0.95;
  config.weight_decay = 0.2;
  expect_formula_in_every_layout(config, 5e-6);
}

TEST(ShardedOptimizer, IsSgdWithOrWithoutMomentumInEveryLayout) {
  OptimizerConfig config;
  config.kind = OptimizerKind::sgd;
  config.weight_decay = 0.2;
  for (const double momentum : {0.0, 0.9}) {
    config.momentum = momentum;
    expect_formula_in_every_layout(config, 1e-6);
  }
}

TEST(ShardedOptimizer, OrthogonalizesMatricesOfEveryShape) {
  for (const auto& [rows, columns] : {std::pair{8, 8}, std::pair{3, 20}, std::pair{20, 3}, std::pair{1, 5}}) {
    const Tensor matrix = (at::arange(rows * columns, at::kFloat) * 1.7).sin().view({rows, columns});
    const Tensor values = at::linalg_svdvals(orthogonalized(matrix));
    EXPECT_LT(values.max().item<float>(), 1.3) << rows << " x " << columns;
    EXPECT_GT(values[0].item<float>(), 0.6) << rows << " x " << columns;
    EXPECT_LT(distance(orthogonalized(matrix), orthogonalized_by_hand(matrix.to(at::kDouble))), 1e-5);
  }
  EXPECT_TRUE(at::equal(orthogonalized(at::zeros({3, 4})), at::zeros({3, 4})));
}

TEST(ShardedOptimizer, KeepsOneMomentOfMatricesThatMuonUpdates) {
  OptimizerConfig muon, sgd;
  muon.kind = OptimizerKind::muon;
  sgd.kind = OptimizerKind::sgd;
  SingleRank rank;
  ParameterGroup group("unit", some_parameters(muon), {}, rank.channels);
  ShardedOptimizer optimizer(muon, {&group});
  EXPECT_EQ(optimizer.states()[0].exp_avg.numel(), group.shard_size());
  EXPECT_EQ(optimizer.states()[0].exp_avg_sq.numel(), group.shard_size() - 320 - 256) << "9 x 30 and 40 x 5, aligned";
  const auto saved = optimizer.saved_prefixes(some_parameters(muon)[1]);
  EXPECT_EQ(std::vector<std::string>(saved.begin(), saved.end()),
            (std::vector<std::string>{parameter_prefix, average_prefix}));
  ShardedOptimizer plain(sgd, {&group});
  EXPECT_EQ(plain.states()[0].whole().flats().size(), 1u) << "without momentum only the parameters";
}

TEST(ShardedOptimizer, ExchangesParametersWithTheirAverages) {
  SingleRank rank;
  ParameterGroup group("unit", some_parameters(), {}, rank.channels);
  ShardedOptimizer optimizer({}, {&group}, ema);
  group.add_gradient(0, at::ones({9, 30}));
  group.start_reduce(true);
  group.finish_reduce();
  optimizer.step(0.1, 1.0);
  const Tensor trained = group.master().clone(), average = optimizer.states()[0].ema.clone();
  EXPECT_FALSE(at::equal(trained, average));
  optimizer.swap_with_ema();
  EXPECT_TRUE(at::equal(group.master(), average));
  optimizer.swap_with_ema();
  EXPECT_TRUE(at::equal(group.master(), trained));
}

TEST(ShardedOptimizer, GivesTheSameBitsWithOffloading) {
  for (const Strategy strategy : {Strategy::no_shard, Strategy::full_shard}) {
    for (const at::ScalarType weights : {at::kFloat, at::kBFloat16}) {
      const auto here = trained({}, 2, strategy, /*offload=*/false, {}, weights),
                 offloaded = trained({}, 2, strategy, /*offload=*/true, {}, weights);
      ASSERT_FALSE(here.empty());
      for (const auto& [name, value] : here) EXPECT_TRUE(at::equal(value, offloaded.at(name))) << name;
    }
  }
}

TEST(ShardedOptimizer, GivesTheSameBitsWithItsStateInAFile) {
  const test::TestFolder folder;
  OptimizerConfig adamw, sgd, plain;
  adamw.weight_decay = 0.2;
  sgd.kind = plain.kind = OptimizerKind::sgd;
  sgd.momentum = 0.9;
  for (const OptimizerConfig& config : {adamw, sgd, plain})
    for (const auto& [ranks, strategy] :
         {std::pair{1, Strategy::no_shard}, std::pair{2, Strategy::no_shard}, std::pair{2, Strategy::full_shard}}) {
      const bool offload = strategy == Strategy::full_shard;
      for (const at::ScalarType weights : {at::kFloat, at::kBFloat16}) {
        const auto in_memory = trained(config, ranks, strategy, offload, {}, weights);
        for (const int64_t block : {64, 192}) {  // shorter than a parameter, and with several ones
          const OptimizerStateFileOptions file{folder.path(), block};
          const auto in_file = trained(config, ranks, strategy, offload, file, weights);
          EXPECT_EQ(in_file.size(), in_memory.size());
          for (const auto& [name, value] : in_memory)
            EXPECT_TRUE(at::equal(value, in_file.at(name)))
                << name << " on " << ranks << " in " << weights << ", blocks of " << block;
        }
      }
    }
}

TEST(ShardedOptimizer, ExchangesParametersWithTheirAveragesInAFile) {
  const test::TestFolder folder;
  SingleRank rank;
  for (const at::ScalarType weights : {at::kFloat, at::kBFloat16}) {
    GroupOptions options{.param_dtype = weights, .masters_in_file = true};
    ParameterGroup group("unit", some_parameters(), options, rank.channels),
        idle("idle", some_parameters(), options, rank.channels);
    ShardedOptimizer optimizer({}, {&group, &idle}, ema, OptimizerStateFileOptions{folder.path(), 128});
    idle.change_master([](const Tensor& block, int64_t) { Tensor(block).fill_(3); });
    EXPECT_EQ(optimizer.states()[0].whole().flats().size(), weights == at::kFloat ? 1U : 0U)
        << "only parameters that are used in fp32 are in memory";
    group.add_gradient(0, at::ones({9, 30}));
    group.start_reduce(true);
    group.finish_reduce();
    optimizer.step(0.1, 1.0);
    const Tensor trained = group.gather_master().clone();
    optimizer.swap_with_ema();
    EXPECT_LT(distance(group.gather_master(), trained * (1 - ema)), 1e-6) << "it began with zeros";
    EXPECT_FALSE(at::equal(group.gather_master(), trained));
    EXPECT_TRUE(at::equal(idle.gather_master(), at::full_like(idle.gather_master(), 3)));
    optimizer.swap_with_ema();
    EXPECT_TRUE(at::equal(group.gather_master(), trained));
  }
}

TEST(ShardedOptimizer, MastersInAFileTakeNoMemory) {
  install_allocator();
  const test::TestFolder folder;
  SingleRank rank;
  for (const CpuOffload offload : {CpuOffload::none, CpuOffload::trained}) {
    const auto live = [] { return memory_usage().live[int(MemoryCategory::parameters)]; };
    const int64_t before = live();
    ParameterGroup group("unit", some_parameters(),
                         {.param_dtype = at::kBFloat16, .offload = offload, .masters_in_file = true}, rank.channels);
    ShardedOptimizer optimizer({}, {&group}, ema, OptimizerStateFileOptions{folder.path()});
    EXPECT_EQ(live() - before, 2 * group.shard_size()) << "the 16-bit copy";
    group.finish_gather();
    EXPECT_EQ(memory_usage().live[int(MemoryCategory::gathered)], 0) << "which is what is gathered";
  }
}

TEST(ShardedOptimizer, ANormIsNanIfAnyPartIs) {
  for (const Norm norm : {Norm::l2, Norm::l1, Norm::inf})
    for (const std::vector<double>& parts : {std::vector<double>{NAN, 1}, std::vector<double>{1, NAN}})
      EXPECT_TRUE(std::isnan(combine_norm_parts(norm, parts))) << to_string(norm);
}

TEST(ShardedOptimizer, DecaysOnlyParametersWithDecay) {
  OptimizerConfig with, without;
  with.weight_decay = 0.5;
  without.weight_decay = 0.0;
  const auto decayed = trained(with, 1, Strategy::full_shard), plain = trained(without, 1, Strategy::full_shard);
  EXPECT_TRUE(at::equal(decayed.at("norm"), plain.at("norm")));
  EXPECT_TRUE(at::equal(decayed.at("bias"), plain.at("bias")));
  EXPECT_GT(distance(decayed.at("matrix"), plain.at("matrix")), 1e-2);
}

TEST(ShardedOptimizer, AGroupWithoutAGradientIsNotStepped) {
  SingleRank rank;
  ParameterGroup used("used", some_parameters(), {}, rank.channels), idle("idle", some_parameters(), {}, rank.channels);
  used.master().fill_(1);
  idle.master().fill_(1);
  ShardedOptimizer optimizer({}, {&used, &idle});
  used.add_gradient(0, at::ones({9, 30}));
  used.start_reduce(true);
  used.finish_reduce();
  optimizer.step(0.1, 1.0);
  EXPECT_FALSE(at::equal(used.master(), at::ones_like(used.master())));
  EXPECT_TRUE(at::equal(idle.master(), at::ones_like(idle.master())));
  EXPECT_EQ(optimizer.states()[0].steps, 1);
  EXPECT_EQ(optimizer.states()[1].steps, 0);
}

TEST(ShardedOptimizer, WeightsGatheredBeforeAStepAreNotUsedAfterIt) {
  on_ranks(2, [](Channels& channels) {
    ParameterGroup group("unit", some_parameters(), {Strategy::shard_optimizer}, channels);
    ShardedOptimizer optimizer({}, {&group});
    group.finish_gather();
    EXPECT_EQ(group.weight(0).abs().max().item<float>(), 0);
    group.add_gradient(0, at::ones({9, 30}));
    group.start_reduce(true);
    group.finish_reduce();
    optimizer.step(0.1, 1.0);
    group.finish_gather();
    EXPECT_GT(group.weight(0).abs().min().item<float>(), 0);
  });
}

}  // namespace
}  // namespace wmtp
