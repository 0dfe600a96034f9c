// Value heads: loss and gradients against plain autograd, alone and together with the weighted token loss.
#include "step/value_loss.hpp"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <functional>

#include "support/answers.hpp"
#include "support/ranks.hpp"
#include "support/refusal.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

using test::Answer;
using test::batch_of;
using test::refusal;
using test::TinyTraining;

class Nothing : public Adapter {
 public:
  bool trains(const std::string&) const override { return false; }
};

/// The target value is one, so that the loss is not minimal at the start.
Tensor square_of(ValueStep& step, const Tensor& values) {
  const Tensor answers = step.batch().kind.eq(2).to(at::kFloat);
  const Tensor sum = ((values - 1).square() * answers).sum();
  step.metric("value/error", sum.detach(), answers.sum());
  return sum / step.answer_tokens();
}

class Squares : public Objective {
 public:
  explicit Squares(std::string kind = "linear") : kind_(std::move(kind)) {}
  Needs needs() const override { return {.values = {ValueSignal::of_policy("v")}, .heads = {{"v", kind_}}}; }
  Tensor loss(ValueStep& step) override { return square_of(step, step.leaf(ValueSignal::of_policy("v"))); }

 private:
  std::string kind_;
};

class Joint : public Weighting {
 public:
  Needs needs() const override { return {.values = {ValueSignal::of_policy("v")}, .heads = {{"v", "linear"}}}; }
  Tensor value_loss(ValueStep& step) override { return 3 * square_of(step, step.leaf(ValueSignal::of_policy("v"))); }
  Weights weigh(BatchStep& step) override {
    const Tensor values = step.value(ValueSignal::of_policy("v"));
    EXPECT_FALSE(values.requires_grad());
    return Weights::by_target(at::ones_like(values));
  }
};

/// Distinct non-zero values, as after some steps.
void fill_heads(ShardedModel& model) {
  model.fill([](const ParameterSpec& spec, int64_t begin, int64_t count, float* out) {
    if (!spec.name.starts_with("value_heads.")) return false;
    for (int64_t i = 0; i < count; ++i) out[i] = 0.4F * std::sin(1.7F * float(begin + i) + float(spec.count()));
    return true;
  });
}

std::map<std::string, Tensor> parameters_of(ShardedModel& model) {
  std::map<std::string, Tensor> all;
  for (const auto& unit : model.units())
    for (const auto& group : unit->groups()) {
      const Tensor flat = group->gather_master().clone();
      for (const FlatParameter& placed : group->parameters())
        all[placed.spec.name] = flat.narrow(0, placed.offset, placed.count).view(placed.spec.shape);
    }
  return all;
}

Tensor gradient_of(const ShardUnit& unit, const std::string& name) {
  for (const auto& group : unit.groups())
    for (const FlatParameter& placed : group->parameters())
      if (placed.spec.name == name)
        return group->gradient().narrow(0, placed.offset, placed.count).view(placed.spec.shape);
  throw std::runtime_error("no parameter " + name);
}

/// The heads of model/torch/block.hpp on the normed trunk output.
Tensor values_by_hand(const std::map<std::string, Tensor>& leaves, const Tensor& trunk, double eps) {
  Tensor h = trunk * (trunk.square().mean(-1, true) + eps).rsqrt() * leaves.at("norm.weight");
  for (int64_t layer = 0; leaves.count("value_heads.v." + std::to_string(layer) + ".weight"); ++layer) {
    const std::string name = "value_heads.v." + std::to_string(layer);
    if (layer > 0) h = at::gelu(h);
    h = at::matmul(h, leaves.at(name + ".weight").t()) + leaves.at(name + ".bias");
  }
  return h.squeeze(-1);
}

const std::vector<Answer> two_answers{{{3, 1, 4, 1, 5}, 2}, {{9, 2, 6, 5, 3, 5, 8}, 3}};

TEST(ValueLoss, AndItsGradientsEqualAutograd) {
  for (const auto& [kind, factor] :
       {std::pair<std::string, double>{"linear", 1}, {"mlp", 1}, {"linear", 1024}, {"mlp", 1024}}) {
    SingleRank rank;
    const Experiment experiment = test::tiny_experiment();
    test::Everything everything;
    const auto model = test::tiny_model(experiment, Heads::none, &everything, 9, rank.channels, {{"v", kind}});
    fill_heads(*model);
    ActivePipeline pipeline = test::pipeline_of(std::make_unique<Squares>(kind));
    std::map<std::string, Tensor> pipeline_state;
    RankCollectives across(rank.channels);
    const RunContext run_context{0, experiment.model.vocab_size, 9, 1, across, pipeline_state};
    ValueLoss loss(*model, pipeline);
    loss.scale_gradients(factor);
    const MicroBatch micro = batch_of(two_answers, 8, 0);
    StepTotals totals;
    const StepCounts counts{{}, micro.tokens, 7, 0};
    MicroBatchContext step(run_context, {1, counts, totals}, micro);
    at::manual_seed(5);
    const Tensor trunk = at::randn({2, 8, experiment.model.dim});
    Tensor d_trunk = at::ones_like(trunk);
    {
      const GatherScope norm(model->unit("norm"));
      const ForwardContext context =
          model->forward_context(true, experiment.seed, 1, micro.batch.sequence, micro.documents);
      loss.differentiate(step, trunk, context, d_trunk);
      loss.evaluate(step, trunk, context);
    }
    for (const char* unit : {"norm", "value_heads"}) {
      model->unit(unit).start_reduce(true);
      model->unit(unit).finish_reduce();
    }
    totals.exchange(rank.channels);

    const at::AutoGradMode grad(true);
    std::map<std::string, Tensor> leaves;
    std::vector<Tensor> inputs{trunk.clone().requires_grad_(true)};
    for (const auto& [name, value] : parameters_of(*model))
      if (name == "norm.weight" || name.starts_with("value_heads."))
        inputs.push_back(leaves[name] = value.clone().requires_grad_(true));
    const Tensor values = values_by_hand(leaves, inputs[0], experiment.model.norm_eps);
    const Tensor expected = ((values - 1).square() * micro.batch.kind.eq(2)).sum() / 7;
    const auto gradients = torch::autograd::grad({expected}, inputs);
    EXPECT_NEAR(totals.sum("loss"), 2 * expected.item<double>(), 1e-5) << kind << ", once with gradient, once without";
    const auto difference = [scale = factor](const Tensor& found, const Tensor& wanted) {
      return (found / scale - wanted).abs().max().item<float>();
    };
    EXPECT_LT(difference(d_trunk - 1, gradients[0]), 1e-6) << kind << ": added to the existing gradient";
    size_t i = 0;
    for (const auto& [name, leaf] : leaves) {
      const ShardUnit& unit = model->unit(name == "norm.weight" ? "norm" : "value_heads");
      EXPECT_LT(difference(gradient_of(unit, name), gradients[++i]), 1e-5) << kind << ", " << name;
    }
  }
}

TEST(ValueLoss, TrainsOnlyTheHeadsWhenTheTrunkIsFrozen) {
  std::vector<double> first_losses;
  for (const bool trunk_trains : {false, true}) {
    SingleRank rank;
    const Experiment experiment = test::tiny_experiment();
    test::Everything everything;
    Nothing nothing;
    const test::Answers source([](int64_t i) { return two_answers[size_t(i % 2)]; }, 2, 8, 0);
    TinyTraining training(
        experiment, std::make_unique<Squares>(), rank.channels,
        {.adapter = trunk_trains ? static_cast<Adapter*>(&everything) : &nothing, .training = &source});
    const auto before = parameters_of(training->model());
    std::vector<double> losses;
    for (int i = 0; i < 6; ++i) losses.push_back(training->step().loss);
    first_losses.push_back(losses.front());
    EXPECT_LT(losses.back(), 0.9 * losses.front());
    for (const auto& [name, now] : parameters_of(training->model())) {
      const bool trains = trunk_trains || name.starts_with("value_heads.");
      EXPECT_EQ(at::equal(now, before.at(name)), !trains) << name;
    }
  }
  EXPECT_EQ(first_losses, (std::vector<double>{1, 1})) << "values begin at zero";
}

TEST(ValueLoss, ThatIsNoScalarIsRefusedWithThePipelinesName) {
  class Careless : public Squares {
   public:
    Tensor loss(ValueStep&) override { return at::ones({}); }
  };
  SingleRank rank;
  TinyTraining training(test::tiny_experiment(), std::unique_ptr<Objective>(std::make_unique<Careless>()),
                        rank.channels);
  EXPECT_SAYS(refusal(ExitStatus::plugin, [&] { training->step(); }),
              "'made by the test': loss() must return a scalar");
}

/// Returns, reports and stores what a test defines.
class Odd : public Squares {
 public:
  using Change = std::function<Tensor(ValueStep&, const Tensor&)>;
  explicit Odd(Change change) : change_(std::move(change)) {}
  Tensor loss(ValueStep& step) override { return change_(step, Squares::loss(step)); }

 private:
  Change change_;
};

TEST(ValueLoss, TensorsWithoutValuesAreRefusedWithThePipelinesName) {
  const auto expect_refused = [](const std::string& part, const Odd::Change& change) {
    SingleRank rank;
    TinyTraining training(test::tiny_experiment(), std::unique_ptr<Objective>(std::make_unique<Odd>(change)),
                          rank.channels);
    const std::string text = refusal(ExitStatus::plugin, [&] { training->step(); });
    EXPECT_SAYS(text, "made by the test");
    EXPECT_SAYS(text, part);
  };
  const Tensor meta = at::ones({}, at::kMeta);
  expect_refused("loss() returned a scalar on meta, wanted cpu",
                 [](ValueStep&, const Tensor& loss) { return loss.to(at::kMeta); });
  expect_refused("loss() must return a scalar", [](ValueStep&, const Tensor& loss) { return at::complex(loss, loss); });
  expect_refused("the sum of metric a/b is on meta; wanted a dense tensor on the CPU",
                 [&](ValueStep& step, const Tensor& loss) {
                   step.metric("a/b", meta, at::ones({}));
                   return loss;
                 });
  expect_refused("the count of metric a/b is undefined", [](ValueStep& step, const Tensor& loss) {
    step.metric("a/b", at::ones({}), {});
    return loss;
  });
  expect_refused("state \"seen\" is on meta; wanted a dense tensor", [&](ValueStep& step, const Tensor& loss) {
    step.state("seen", at::zeros({})) = meta;
    return loss;
  });
  expect_refused("state \"seen\" is undefined", [](ValueStep& step, const Tensor& loss) {
    step.state("seen", at::zeros({})) = Tensor();
    return loss;
  });
  expect_refused("state \"seen\" is sparse", [](ValueStep& step, const Tensor& loss) {
    step.state("seen", at::zeros({2})) = at::eye(2).to_sparse();
    return loss;
  });
}

TEST(JointWeighting, AddsItsValueLossToTheTokenLoss) {
  SingleRank rank;
  const Experiment experiment = test::tiny_experiment();
  TinyTraining plain(experiment, test::baseline(), rank.channels);
  TinyTraining joint(experiment, std::make_unique<Joint>(), rank.channels);
  const auto before = parameters_of(joint->model());
  const StepReport alone = plain->step(), both = joint->step();
  EXPECT_NEAR(both.metrics.at("train/ce"), alone.metrics.at("train/ce"), 1e-6) << "the head changes no token's loss";
  EXPECT_NEAR(both.loss, alone.loss + 3, 1e-5) << "values of zero are wrong by one, three times over";
  EXPECT_NEAR(both.metrics.at("value/error"), 1, 1e-6);
  EXPECT_FALSE(
      at::equal(parameters_of(joint->model()).at("value_heads.v.0.weight"), before.at("value_heads.v.0.weight")));
  EXPECT_LT(joint->step().metrics.at("value/error"), 1);
  EXPECT_NEAR(joint->validate().at("valid/loss"), joint->validate().at("valid/ce_head_1"), 0.2) << "tokens alone";
}

TEST(JointWeighting, ComputesTheSameOnTwoRanks) {
  Experiment experiment = test::tiny_experiment();
  const auto losses_of = [&](Channels& channels) {
    TinyTraining training(experiment, std::make_unique<Joint>(), channels);
    std::vector<double> losses;
    for (int i = 0; i < 4; ++i) losses.push_back(training->step().loss);
    return losses;
  };
  experiment.train.batch_size = 2;
  SingleRank rank;
  const auto alone = losses_of(rank.channels);
  experiment.train.batch_size = 1;
  test::on_ranks(2, [&](Channels& channels) {
    const auto together = losses_of(channels);
    for (size_t i = 0; i < alone.size(); ++i) EXPECT_NEAR(together[i], alone[i], 1e-5) << "step " << i + 1;
  });
}

}  // namespace
}  // namespace wmtp
