// Each parameter trained alone gets the gradient that it has when all train, which tests/parity compares with PyTorch.
#include "step/step_runner.hpp"

#include <gtest/gtest.h>

#include "support/ranks.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

using test::TinyTraining;

class Only final : public Adapter {
 public:
  explicit Only(std::string name) : name_(std::move(name)) {}
  bool trains(const std::string& parameter) const override { return parameter == name_; }

 private:
  std::string name_;
};

struct Trained {
  std::map<std::string, Tensor> start, end;  ///< all parameters
  double norm = 0;                           ///< of the gradient
  double loss = 0;
  double change(const std::string& name) const { return (end.at(name) - start.at(name)).norm().item<double>(); }
};

std::map<std::string, Tensor> parameters_of(ShardedModel& model) {
  std::map<std::string, Tensor> all;
  for (const auto& unit : model.units())
    for (const auto& group : unit->groups())
      for (const FlatParameter& placed : group->parameters())
        all[placed.spec.name] = group->master().narrow(0, placed.offset, placed.count).clone();
  return all;
}

/// A change is the gradient times this: large, so that rounding does not hide it in a parameter.
constexpr double learning_rate = 1e4;

/// One step of plain SGD without clipping or decay.
Trained one_step(Experiment experiment, const Adapter* adapter) {
  experiment.optimizer.kind = OptimizerKind::sgd;
  experiment.optimizer.momentum = 0;
  experiment.optimizer.weight_decay = 0;
  experiment.optimizer.lr = learning_rate;
  experiment.train.clip_norm = 0;
  SingleRank rank;
  TinyTraining tiny(experiment, test::baseline(), rank.channels, {.adapter = adapter});
  Trained trained{parameters_of(tiny.model()), {}};
  const auto metrics = tiny->step().metrics;
  trained.norm = metrics.at("train/grad_norm");
  trained.loss = metrics.at("train/loss");
  trained.end = parameters_of(tiny.model());
  return trained;
}

struct Option {
  const char* name;
  void (*set)(ModelConfig&);
};
const Option options[] = {
    {"plain", [](ModelConfig&) {}},
    {"norms of heads", [](ModelConfig& m) { m.qk_norm = m.o_bias = true; }},
    {"multipliers",
     [](ModelConfig& m) {
       m.embedding_multiplier = m.attention_multiplier = 1.5;
       m.residual_multiplier = 0.4;
       m.logits_scaling = 2;
     }},
    {"all others",
     [](ModelConfig& m) { m.qkv_bias = m.o_bias = m.joint_qk_norm = m.post_norm = m.tie_word_embeddings = true; }},
};

TEST(StepRunner, GivesAParameterThatTrainsAloneTheGradientThatItHasAmongAll) {
  for (const Option& option : options)
    for (const FutureHeads heads : {FutureHeads::parallel, FutureHeads::chained, FutureHeads::shared}) {
      if (heads == FutureHeads::shared && &option != options) continue;  // their options are those of chained ones
      Experiment experiment = test::tiny_experiment();
      experiment.model.future_heads = heads;
      option.set(experiment.model);
      const Trained together = one_step(experiment, nullptr);
      for (const auto& [name, start] : together.start) {
        SCOPED_TRACE(std::string(option.name) + ", " + to_string(heads) + ": " + name);
        const Only adapter(name);
        const Trained alone = one_step(experiment, &adapter);
        EXPECT_NEAR(alone.loss, together.loss, 1e-6) << "also of heads that are not differentiated";
        EXPECT_GT(together.change(name), 1e-5);
        EXPECT_NEAR(alone.change(name), together.change(name), 1e-5 * together.change(name));
        EXPECT_NEAR(alone.norm * learning_rate, together.change(name), 1e-5 * together.change(name));
        for (const auto& [other, value] : alone.start)
          EXPECT_EQ(at::equal(value, alone.end.at(other)), other != name) << other;
      }
    }
}

}  // namespace
}  // namespace wmtp
