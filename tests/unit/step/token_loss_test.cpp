// The token loss with prompts and padding: hidden states that must not be read are NaN.
#include "step/token_loss.hpp"

#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "support/answers.hpp"
#include "support/ranks.hpp"
#include "support/tiny_training.hpp"

namespace wmtp {
namespace {

using test::Answer;
using test::AnyStep;
using test::batch_of;
using test::Weigh;

constexpr int64_t S = 10, heads = 3;
constexpr When after_losses[] = {When::token, When::head, When::all};

const std::vector<Answer> with_padding{
    {{3, 1, 4, 1, 5, 9, 2}, 3}, {{6, 5, 3, 5}, 2}, {}, {{8, 9, 7, 9, 3, 2, 3, 8, 4, 6}, 1}};

const char* name_of(When when) {
  return when == When::token ? "token" : when == When::head ? "head" : when == When::all ? "all" : "before";
}

class TokenLossTest : public testing::Test {
 protected:
  struct Found {
    std::map<int64_t, Tensor> d_hidden;  ///< by head
    Tensor d_output;                     ///< of the output layer, flat
    StepTotals totals;
  };

  TokenLossTest() {
    at::manual_seed(4);
    experiment_.model.future_tokens = heads;
    draw_hidden();
  }
  void draw_hidden() {
    for (int64_t k = 1; k <= heads; ++k) hidden_[k] = at::randn({4, length_, experiment_.model.dim});
  }

  /// All heads of one micro-batch. Hidden states that predict no target of their head are NaN.
  Found ask(std::unique_ptr<Weighting> weighting, const MicroBatch& micro, bool normalize = false, double factor = 1) {
    const auto model = test::tiny_model(experiment_, Heads::all, &everything_, 9, rank_.channels);
    ActivePipeline pipeline = test::pipeline_of(std::move(weighting));
    std::map<std::string, Tensor> pipeline_state;
    RankCollectives across(rank_.channels);
    const RunContext run_context{heads, experiment_.model.vocab_size, 9, 1, across, pipeline_state};
    TokenLoss loss(*model, pipeline, rank_.channels, {normalize, 8, head_weights_});
    loss.scale_gradients(factor);
    Found found;
    const StepCounts counts{micro.counts, micro.tokens, micro.answer_tokens, 0};
    MicroBatchContext step(run_context, {1, counts, found.totals}, micro);
    loss.weigh_before_the_heads(step);
    ShardUnit& output = model->unit("output");
    {
      const GatherScope gathered(output);
      weight_ = model->weight("output.weight").weight().clone();
      const auto seen = [&](int64_t head) {
        const Tensor valid = valid_sources(micro.targets, head).unsqueeze(-1);
        return at::where(valid, hidden_[head], std::numeric_limits<float>::quiet_NaN());
      };
      loss.weigh_all(step, seen);
      for (int64_t k = 1; k <= heads; ++k) found.d_hidden[k] = loss.gradient(step, k, seen(k));
    }
    output.start_reduce(true);
    output.finish_reduce();
    found.d_output = output.groups().front()->gradient().narrow(0, 0, weight_.numel()).clone();
    found.totals.exchange(rank_.channels);
    return found;
  }

  /// The same by autograd over all logits: mean over heads with targets of head weight * sum(weight * ce) / sum(valid
  /// or weight).
  using WeightOf = std::function<Tensor(const Tensor& ce, const Tensor& entropy)>;
  void expect_as_by_hand(const Found& found, const MicroBatch& micro, const WeightOf& weight_of, bool normalize,
                         const std::string& what) {
    const at::AutoGradMode grad(true);
    const Tensor weight = weight_.detach().clone().requires_grad_(true);
    Tensor loss = at::zeros({});
    const auto with_targets = double(heads - std::count(micro.counts.begin(), micro.counts.end(), 0));
    std::map<int64_t, Tensor> hidden;
    for (int64_t k = 1; k <= heads; ++k) {
      hidden[k] = hidden_[k].clone().requires_grad_(true);
      const Tensor valid = valid_sources(micro.targets, k).narrow(1, 0, length_ - k).to(at::kFloat);
      const Tensor chances = at::log_softmax(at::matmul(hidden[k].narrow(1, 0, length_ - k), weight.t()), -1);
      const Tensor ce = -chances.gather(2, micro.batch.tokens.narrow(1, k, length_ - k).unsqueeze(-1)).squeeze(-1);
      const Tensor entropy = -(chances.exp() * chances).sum(-1);
      const Tensor weights = weight_of(ce.detach(), entropy.detach()) * valid;
      const double factor = head_weights_.empty() ? 1 : head_weights_[size_t(k - 1)];
      const Tensor divisor = (normalize ? weights.sum() : valid.sum()).clamp_min(1e-9);  // 0 / 0 without targets
      loss = loss + factor * (weights * ce).sum() / divisor / with_targets;
    }
    std::vector<Tensor> leaves{weight};
    for (auto& [k, leaf] : hidden) leaves.push_back(leaf);
    const auto gradients = torch::autograd::grad({loss}, leaves);
    EXPECT_NEAR(found.totals.sum("loss"), loss.item<double>(), 1e-5) << what;
    EXPECT_LT((found.d_output - gradients[0].flatten()).abs().max().item<float>(), 1e-5) << what;
    for (int64_t k = 1; k <= heads; ++k)
      EXPECT_LT((found.d_hidden.at(k) - gradients[size_t(k)]).abs().max().item<float>(), 1e-6)
          << what << ", head " << k;
  }

  Experiment experiment_ = test::tiny_experiment();
  test::Everything everything_;
  SingleRank rank_;
  std::map<int64_t, Tensor> hidden_;
  std::vector<double> head_weights_;
  int64_t length_ = S;
  Tensor weight_;
};

TEST_F(TokenLossTest, IgnoresPromptsAndPadding) {
  const MicroBatch micro = batch_of(with_padding, S, heads);
  const auto ones = [](const Tensor& ce, const Tensor&) { return at::ones_like(ce); };
  expect_as_by_hand(ask(test::baseline(), micro), micro, ones, false, "uniform");
  const auto even = [&](const Tensor& ce, const Tensor&) {  // by the target token, for every head
    const int64_t k = S - ce.size(1);
    return micro.batch.tokens.narrow(1, k, S - k).remainder(2).to(at::kFloat);
  };
  for (const bool normalize : {false, true})
    expect_as_by_hand(
        ask(std::make_unique<Weigh>(
                Needs{},
                [](AnyStep step) { return Weights::by_target(step.batch().tokens.remainder(2).to(at::kFloat)); }),
            micro, normalize),
        micro, even, normalize, "by target");
}

TEST_F(TokenLossTest, ReadsTheTargetsOfHeadsWithOneSourceInASequence) {
  length_ = heads + 1;
  draw_hidden();
  const std::vector<Answer> full{{{3, 1, 4, 1}, 0}, {{5, 9, 2, 6}, 0}, {{5, 3, 5, 8}, 0}, {{9, 7, 9, 3}, 0}};
  const MicroBatch micro = batch_of(full, length_, heads);
  const auto ones = [](const Tensor& ce, const Tensor&) { return at::ones_like(ce); };
  for (const When when : {When::before, When::token, When::head, When::all})
    expect_as_by_hand(
        ask(std::make_unique<Weigh>(Needs{.when = when}, [](AnyStep) { return Weights::uniform(); }), micro), micro,
        ones, false, name_of(when));
}

TEST_F(TokenLossTest, IsTheMeanOverTheHeadsThatHaveTargets) {
  const MicroBatch micro = batch_of({{{3, 1, 4}, 1}, {}, {{6, 5}, 1}, {{8, 9, 7}, 2}}, S, heads);
  ASSERT_EQ(micro.counts, (std::vector<int64_t>{4, 2, 0}));
  const auto ones = [](const Tensor& ce, const Tensor&) { return at::ones_like(ce); };
  for (const When when : {When::before, When::token, When::head, When::all})
    for (const bool normalize : {false, true})
      expect_as_by_hand(ask(std::make_unique<Weigh>(Needs{.when = when}, [](AnyStep) { return Weights::uniform(); }),
                            micro, normalize),
                        micro, ones, normalize, std::string(name_of(when)) + (normalize ? ", by weights" : ""));
}

TEST_F(TokenLossTest, ScalingMultipliesGradientsExactlyAndKeepsLosses) {
  const MicroBatch micro = batch_of(with_padding, S, heads);
  for (const When when : {When::before, When::token, When::head, When::all})
    for (const bool normalize : {false, true}) {
      const auto with_factor = [&](double factor) {
        const auto uniform = [](AnyStep) { return Weights::uniform(); };
        return ask(std::make_unique<Weigh>(Needs{.when = when}, uniform), micro, normalize, factor);
      };
      const Found plain = with_factor(1), scaled = with_factor(1024);
      const std::string what = std::string(name_of(when)) + (normalize ? ", by weights" : "");
      EXPECT_EQ(scaled.totals.sum("loss"), plain.totals.sum("loss")) << what;
      EXPECT_TRUE(at::equal(scaled.d_output, plain.d_output * 1024)) << what;
      for (int64_t k = 1; k <= heads; ++k)
        EXPECT_TRUE(at::equal(scaled.d_hidden.at(k), plain.d_hidden.at(k) * 1024)) << what << ", head " << k;
    }
}

TEST_F(TokenLossTest, HeadWeightsMultiplyTheLossesOfHeadsButNotTheirMetrics) {
  const MicroBatch micro = batch_of(with_padding, S, heads);
  const auto ones = [](const Tensor& ce, const Tensor&) { return at::ones_like(ce); };
  for (const When when : {When::before, When::token, When::head, When::all})
    for (const bool normalize : {false, true}) {
      const auto weighed = [&](const std::vector<double>& head_weights) {
        head_weights_ = head_weights;
        return ask(std::make_unique<Weigh>(Needs{.when = when}, [](AnyStep) { return Weights::uniform(); }), micro,
                   normalize);
      };
      const std::string what = std::string(name_of(when)) + (normalize ? ", by weights" : "");
      const Found plain = weighed({}), ones_given = weighed({1, 1, 1}), found = weighed({1, 0.3, 0});
      expect_as_by_hand(found, micro, ones, normalize, what);
      EXPECT_TRUE(at::equal(ones_given.d_output, plain.d_output)) << what;
      EXPECT_TRUE(at::equal(found.d_hidden.at(3), at::zeros_like(found.d_hidden.at(3)))) << what;
      for (const char* name : {"ce/1", "ce/2", "ce/3", "weight/sum"})
        EXPECT_EQ(found.totals.sum(name), plain.totals.sum(name)) << what << ", " << name;
    }
}

TEST_F(TokenLossTest, AWeightingReadsLossesAtEveryWhen) {
  const MicroBatch micro = batch_of(with_padding, S, heads);
  const auto focal = [](const Tensor& ce) { return (1 - ce.neg().exp()).square(); };
  for (const When when : after_losses)
    for (const bool normalize : {false, true})
      expect_as_by_hand(
          ask(std::make_unique<Weigh>(
                  Needs{.when = when, .reads = {Signal::policy_loss}},
                  [&](AnyStep step) { return Weights::by_source(focal(step.get(Signal::policy_loss))); }),
              micro, normalize),
          micro, [&](const Tensor& ce, const Tensor&) { return focal(ce); }, normalize, name_of(when));
}

TEST_F(TokenLossTest, AWeightingReadsEntropiesAtEveryWhen) {
  for (const auto& answers : {with_padding, std::vector<Answer>(4, {{3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, 0})}) {
    const MicroBatch micro = batch_of(answers, S, heads);
    for (const When when : after_losses)
      expect_as_by_hand(
          ask(std::make_unique<Weigh>(Needs{.when = when, .reads = {Signal::policy_entropy}},
                                      [](AnyStep step) {
                                        const Tensor entropy = step.get(Signal::policy_entropy);
                                        EXPECT_EQ(entropy.sizes(), step.valid().sizes());
                                        EXPECT_TRUE(at::equal(entropy.ne(0), step.valid()));
                                        return Weights::by_source(entropy);
                                      }),
              micro),
          micro, [](const Tensor&, const Tensor& entropy) { return entropy; }, false, name_of(when));
  }
}

TEST_F(TokenLossTest, AWeightingReadsRanksAndMarginsAtEveryWhen) {
  const MicroBatch micro = batch_of(with_padding, S, heads);
  for (const When when : after_losses)
    ask(std::make_unique<Weigh>(Needs{.when = when, .reads = {Signal::policy_rank, Signal::policy_margin}},
                                [](AnyStep step) {
                                  const Tensor rank = step.get(Signal::policy_rank);
                                  const Tensor margin = step.get(Signal::policy_margin);
                                  EXPECT_EQ(rank.sizes(), step.valid().sizes());
                                  EXPECT_TRUE(at::equal(margin.gt(0), rank.eq(0).logical_and(step.valid())));
                                  return Weights::by_source(1 / (1 + rank));
                                }),
        micro);
}

TEST_F(TokenLossTest, AWeightingReadsWhetherAHeadAgreesWithHead1OnTheSameTarget) {
  for (int64_t k = 2; k <= heads; ++k)
    hidden_[k] = at::where(at::rand({4, S, 1}) < 0.5, hidden_[1].roll(1 - k, 1), hidden_[k]);
  const auto agreement = [&](const Tensor& ce, const Tensor&) {
    const int64_t k = S - ce.size(1);
    const auto likeliest = [&](int64_t head) { return at::matmul(hidden_[head], weight_.t()).argmax(-1); };
    return likeliest(k).narrow(1, 0, S - k).eq(likeliest(1).narrow(1, k - 1, S - k)).to(at::kFloat);
  };
  for (const auto& answers : {with_padding, std::vector<Answer>(4, {{3, 1, 4, 1, 5, 9, 2, 6, 5, 3}, 0})})
    for (const When when : after_losses)
      for (const bool normalize : {false, true}) {
        const MicroBatch micro = batch_of(answers, S, heads);
        expect_as_by_hand(ask(std::make_unique<Weigh>(Needs{.when = when, .reads = {Signal::policy_agreement}},
                                                      [](AnyStep step) {
                                                        const Tensor read = step.get(Signal::policy_agreement);
                                                        EXPECT_EQ(read.sizes(), step.valid().sizes());
                                                        return Weights::by_source(read);
                                                      }),
                              micro, normalize),
                          micro, agreement, normalize, name_of(when));
      }
}

TEST_F(TokenLossTest, AWeightingReadsTheMassOfTheLikeliestTokensAtEveryWhen) {
  const MicroBatch micro = batch_of(with_padding, S, heads);
  const int64_t all = experiment_.model.vocab_size;
  for (const When when : after_losses)
    for (const int64_t k : {int64_t{2}, all})
      ask(std::make_unique<Weigh>(Needs{.when = when, .reads = {Signal::policy_top_mass}, .top_k = k},
                                  [&](AnyStep step) {
                                    const Tensor mass = step.get(Signal::policy_top_mass), valid = step.valid();
                                    EXPECT_EQ(mass.sizes(), valid.sizes());
                                    EXPECT_TRUE(at::equal(mass.gt(0), valid));
                                    EXPECT_EQ(at::allclose(mass, valid.to(at::kFloat), 1e-5), k == all);
                                    return Weights::by_source(mass);
                                  }),
          micro);
}

TEST_F(TokenLossTest, WithoutAValidTokenIsZeroAndStillReportsMetrics) {
  const MicroBatch micro = batch_of({{}, {{1, 2}, 2}, {}, {}}, S, heads);
  for (const When when : {When::before, When::token, When::head, When::all})
    for (const bool normalize : {false, true}) {
      const Found found = ask(std::make_unique<Weigh>(Needs{.when = when},
                                                      [](AnyStep step) {
                                                        step.metric("seen", step.valid().sum(), step.valid().sum());
                                                        return Weights::by_source(at::ones(step.valid().sizes()));
                                                      }),
                              micro, normalize);
      EXPECT_TRUE(found.totals.has("plugin_sum/seen")) << name_of(when);
      EXPECT_EQ(found.totals.sum("loss"), 0) << name_of(when);
      EXPECT_TRUE(at::equal(found.d_output, at::zeros_like(found.d_output))) << name_of(when);
      for (const auto& [k, d] : found.d_hidden) EXPECT_TRUE(at::equal(d, at::zeros_like(d))) << name_of(when);
    }
}

}  // namespace
}  // namespace wmtp
