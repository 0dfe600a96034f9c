// formula: the exact values of formulas, the moment at which they are computed, the reported position of errors, and a
// speed equal to a plugin's.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <ctime>
#include <functional>

#include "fake_step.hpp"
#include "made_plugin.hpp"
#include "plugins/torch/boundary.hpp"

namespace wmtp {
namespace {

using test::FakeStep;

auto formula(const std::string& weight) { return test::made<Weighting>("formula", {{"weight", weight}}); }

/// Losses 1 2 3 4 of one head, then a position that is not valid; reference 2 1 1 4, entropies 0.5 1 2 4 and of the
/// reference 3 2 1 0.5, those of a reference "amateur" 1 4 1 5 and 2 1 1 0.5, values 0.1 … 0.5; the rest as below.
FakeStep five_tokens() {
  const auto row = [](std::vector<float> values) { return at::tensor(values).reshape({1, -1}); };
  FakeStep step(row({1, 1, 1, 1, 0}).to(at::kBool));
  step.signals["policy.loss"] = row({1, 2, 3, 4, 0});
  step.signals["reference.loss"] = row({2, 1, 1, 4, 0});
  step.signals["references.amateur.loss"] = row({1, 4, 1, 5, 0});
  step.signals["references.amateur.entropy"] = row({2, 1, 1, 0.5F, 0});
  step.signals["policy.entropy"] = row({0.5F, 1, 2, 4, 0});
  step.signals["reference.entropy"] = row({3, 2, 1, 0.5F, 0});
  step.signals["policy.rank"] = row({0, 3, 1, 2, 0});
  step.signals["policy.margin"] = row({2, -3, -1, -2, 0});
  step.signals["policy.top_mass"] = row({0.5F, 0.75F, 1, 0.25F, 0});
  step.signals["policy.agreement"] = row({1, 0, 1, 0, 0});
  step.signals["policy.alignment"] = row({1, -0.5F, 0.25F, -1, 0});
  step.signals["data.weight"] = row({1, 0, 0.5F, 2, 0});
  step.signals["data.bytes"] = row({1, 4, 2, 0, 0});
  step.signals["data.correct"] = row({1, 1, 0, 0, 0});
  step.signals["data.pass_rate"] = row({0.25F, 0.5F, 0.5F, 0.75F, 0});
  step.signals["value.value"] = row({0.1F, 0.2F, 0.3F, 0.4F, 0.5F});
  step.head_in_hand = 3;
  return step;
}

std::vector<float> weights(const std::string& text) {
  FakeStep step = five_tokens();
  const Weights weights = test::weigh(*formula(text), step);
  EXPECT_NO_THROW(check_weights_form({"formula", 1, 3, {1, 5}, {1, 5}, false}, weights));
  const Tensor flat = weights.values.contiguous().flatten();
  return {flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel()};
}

void expect_weights(const std::string& text, const std::vector<double>& wanted) {
  const std::vector<float> found = weights(text);
  for (size_t i = 0; i < wanted.size(); ++i) EXPECT_NEAR(found[i], wanted[i], 1e-5 * std::abs(wanted[i])) << text;
  EXPECT_TRUE(std::isfinite(found[4]) && found[4] >= 0) << text;  // not valid: no other requirement
}

/// A formula of the losses only, compared with the same function in C++.
void expect_of_ce(const std::string& text, const std::function<double(double)>& wanted) {
  expect_weights(text, {wanted(1), wanted(2), wanted(3), wanted(4)});
}

TEST(Formula, MeansWhatItSays) {
  expect_of_ce("(1 - exp(-ce))^2", [](double l) { return std::pow(1 - std::exp(-l), 2); });
  expect_of_ce("exp(-ce)", [](double l) { return std::exp(-l); });
  expect_of_ce("log(1 + ce) / 2", [](double l) { return std::log(1 + l) / 2; });
  expect_of_ce("clamp(ce, 1.5, 3.5)", [](double l) { return std::clamp(l, 1.5, 3.5); });
  expect_of_ce("max(min(ce, 3), 2)", [](double l) { return std::max(std::min(l, 3.0), 2.0); });
  expect_of_ce("ce * 2 - ce / 4 + 1", [](double l) { return l * 2 - l / 4 + 1; });
  expect_of_ce("10 / ce", [](double l) { return 10 / l; });
  expect_of_ce("2 ^ ce", [](double l) { return std::pow(2, l); });
  expect_of_ce("ce ^ ce", [](double l) { return std::pow(l, l); });
  expect_of_ce(" ( ( ce ) )\n", [](double l) { return l; });
}

TEST(Formula, IsNegativeOnlyIfItSaysSo) {
  const auto plugin = formula(" signed(correct - pass_rate - 1) ");
  EXPECT_TRUE(plugin->needs().signed_weights);
  EXPECT_FALSE(formula("correct - pass_rate")->needs().signed_weights);
  FakeStep step = five_tokens();
  const Tensor values = test::weigh(*plugin, step).values.flatten();
  EXPECT_TRUE(at::allclose(values.narrow(0, 0, 4), at::tensor({-0.25F, -0.5F, -1.5F, -1.75F})));
  EXPECT_TRUE(at::equal(test::weigh(*formula("signed(-2)"), step).values, at::full({1, 5}, -2.0F)));
}

TEST(Formula, HasTheGradientOfTheFocalLossWhoseFactorIsDifferentiatedToo) {
  const auto loss = [](double l) { return std::pow(1 - std::exp(-l), 2) * l; };
  expect_of_ce("(1 - exp(-ce))^2 + 2 * (1 - exp(-ce)) * exp(-ce) * ce",
               [&](double l) { return (loss(l + 1e-5) - loss(l - 1e-5)) / 2e-5; });
}

TEST(Formula, BindsAsInMathematics) {
  expect_of_ce("20 - ce ^ 2", [](double l) { return 20 - l * l; });
  expect_of_ce("20 + -ce ^ 2", [](double l) { return 20 - l * l; });
  expect_of_ce("ce ^ -1", [](double l) { return 1 / l; });
  expect_of_ce("2 ^ 3 ^ 0 * ce", [](double l) { return 2 * l; });
  expect_of_ce("24 / ce / 2", [](double l) { return 24 / l / 2; });
  expect_of_ce("24 - ce - 2", [](double l) { return 24 - l - 2; });
  expect_of_ce("5 - - ce", [](double l) { return 5 + l; });
  expect_of_ce("1e1 + .5 * ce + 2.", [](double l) { return 12 + l / 2; });
  expect_of_ce("ce + 1 > 3", [](double l) { return l > 2; });
}

TEST(Formula, ComparisonsAreOneOrZero) {
  expect_weights("ce > 2", {0, 0, 1, 1});
  expect_weights("ce >= 2", {0, 1, 1, 1});
  expect_weights("2 > ce", {1, 0, 0, 0});
  expect_weights("ce <= ref", {1, 0, 0, 1});
  expect_weights("(ce < 4) * (entropy > 0.5) * ce", {0, 2, 3, 0});
}

TEST(Formula, ReadsAllThatItNames) {
  expect_weights("excess + 1", {0, 2, 3, 1});
  expect_weights("entropy * ref", {1, 1, 2, 16});
  expect_weights("reference_entropy * ce", {3, 4, 3, 2});
  expect_weights("reference_loss - ref + ce", {1, 2, 3, 4});
  expect_weights("max(0, amateur_loss - ref)", {0, 3, 0, 1});
  expect_weights("amateur_entropy * ce + 0 * amateur_loss", {2, 2, 3, 2});
  expect_weights("rank < 2", {1, 0, 1, 0});
  expect_weights("margin + ce + 2", {5, 1, 4, 4});
  expect_weights("1 - top_mass(5)", {0.5, 0.25, 0, 0.75});
  expect_weights("top_mass(2 + 1) * ce / top_mass(3)", {1, 2, 3, 4});
  expect_weights("1 + agreement * ce", {2, 1, 4, 1});
  expect_weights("1 + min(0, alignment)", {1, 0.5, 1, 0});
  expect_weights("data_weight", {1, 0, 0.5, 2});
  expect_weights("bytes * ce", {1, 8, 6, 0});
  expect_weights("correct * (1 - pass_rate)", {0.75, 0.5, 0, 0});
  expect_weights("value * ce", {0.1, 0.4, 0.9, 1.6});
  expect_weights("position + 0 * ce", {0, 1, 2, 3});
  expect_weights("ce * 0 + 1 / head", {1.0 / 3, 1.0 / 3, 1.0 / 3, 1.0 / 3});
  FakeStep step = five_tokens();
  const Tensor drawn = step.uniform(0);
  const Weights same = test::weigh(*formula("(uniform - uniform) * ce + uniform"), step);
  EXPECT_TRUE(at::allclose(same.values, drawn * step.valid()));
}

TEST(Formula, SelectsByAQuantileOfAllRanks) {
  // excess -1 1 2 0: its median is 0.5
  expect_weights("excess > quantile(excess, 0.5)", {0, 1, 1, 0});
  expect_weights("(ce >= quantile(ce, 1)) + (ce <= quantile(ce, 0))", {1, 0, 0, 1});
  FakeStep step = five_tokens();
  step.other_rank = {at::full({1, 6}, 9.0F), at::ones({1, 6}, at::kBool)};
  EXPECT_EQ(test::weigh(*formula("ce > quantile(ce, 0.5)"), step).values.sum().item<float>(), 0);
  EXPECT_EQ(step.num_collectives, 1);
}

TEST(Formula, LeavesWhatItReadsAsItWas) {
  FakeStep step = five_tokens();
  std::map<std::string, Tensor> before;
  for (const auto& [name, tensor] : step.signals) before[name] = tensor.clone();
  const auto plugin = formula("clamp(-(-ce), 0, 9) + exp(log(ref + 1)) * entropy ^ 2 - max(value, min(ce, excess))");
  const Tensor once = test::weigh(*plugin, step).values;
  for (const auto& [name, tensor] : before) EXPECT_TRUE(at::equal(step.signals.at(name), tensor)) << name;
  EXPECT_TRUE(at::equal(test::weigh(*plugin, step).values, once));
}

TEST(Formula, IsAskedAsEarlyAsItsNamesAllow) {
  const auto when = [](const char* text) { return formula(text)->needs().when; };
  for (const char* text : {"ce", "entropy ^ 2", "1 - top_mass(5)", "agreement", "excess / head", "exp(ref - ce)", "previous_ce",
                           "1 + previous_ce - ce"})
    EXPECT_EQ(when(text), When::token) << text;
  for (const char* text : {"ce > quantile(ce, 0.4)", "ce * uniform", "ce * position", "ce * value",
                           "previous_ce / (1 + position)", "previous_ce > quantile(previous_ce, 0.5)"})
    EXPECT_EQ(when(text), When::head) << text;
  for (const char* text :
       {"1", "data_weight", "max(0, alignment)", "bytes * ref", "correct * pass_rate", "ref", "reference_entropy",
        "amateur_loss - ref", "exp(value)", "uniform < 0.6", "1 / head", "ref < quantile(ref, 0.6)"})
    EXPECT_EQ(when(text), When::before) << text;
}

TEST(Formula, NeedsWhatItReadsAndNoMore) {
  const auto reads = [](const char* text) {
    std::string all;
    for (const Signal signal : formula(text)->needs().reads) all += to_text(signal) + " ";
    for (const ReferenceSignal& signal : formula(text)->needs().references) all += to_text(signal) + " ";
    for (const ValueSignal& value : formula(text)->needs().values) all += to_text(value) + " ";
    return all;
  };
  EXPECT_EQ(reads("(1 - exp(-ce))^2"), "policy.loss ");
  EXPECT_EQ(reads("excess"), "policy.loss reference.loss ");
  EXPECT_EQ(reads("rank + margin"), "policy.rank policy.margin ");
  EXPECT_EQ(reads("agreement"), "policy.agreement ");
  EXPECT_EQ(reads("previous_ce"), "policy.previous_loss ");
  EXPECT_EQ(reads("previous_ce - ce"), "policy.loss policy.previous_loss ");
  EXPECT_EQ(reads("previous_loss"), "references.previous.loss ");
  EXPECT_EQ(reads("1 + min(0, alignment)"), "policy.alignment ");
  EXPECT_EQ(reads("top_mass(3) > 0.5"), "policy.top_mass ");
  EXPECT_EQ(formula("top_mass(3) > 0.5")->needs().top_k, 3);
  EXPECT_EQ(formula("ce")->needs().top_k, 0);
  EXPECT_EQ(reads("data_weight + bytes + correct + pass_rate"), "data.weight data.bytes data.correct data.pass_rate ");
  EXPECT_EQ(reads("exp(-reference_entropy)"), "reference.entropy ");
  EXPECT_EQ(reads("reference_loss"), "reference.loss ");
  EXPECT_EQ(reads("amateur_loss - expert_loss + amateur_loss * amateur_entropy"),
            "references.amateur.loss references.expert.loss references.amateur.entropy ");
  EXPECT_EQ(reads("ref * value * entropy"), "policy.entropy reference.loss value.value ");
  EXPECT_EQ(reads("head / (1 + position + uniform)"), "");
}

TEST(Formula, BeforeTheHeadsItAnswersForEachHeadOnItsOwn) {
  at::manual_seed(2);
  FakeStep step(at::rand({2, 16, 4}) < 0.8);
  step.head_in_hand = 0;
  step.signals["reference.loss"] = at::rand({2, 16, 4}) * step.valid();
  step.signals["value.value"] = at::rand({2, 16});
  const Tensor drawn = step.uniform(0);
  const auto plugin = formula("(ref <= quantile(ref, 0.6)) * value * uniform / head + position");
  const Weights weights = test::weigh(*plugin, step);
  EXPECT_NO_THROW(check_weights_form({"formula", 1, 0, {2, 16}, {2, 16, 4}, false}, weights));
  for (int64_t k = 1; k <= 4; ++k) {
    const Tensor ref = step.signals["reference.loss"].select(2, k - 1), valid = step.valid().select(2, k - 1);
    const Tensor low = ref <= test::quantile_by_hand(ref, valid, 0.6);
    const Tensor wanted = low * step.signals["value.value"] * drawn.select(2, k - 1) / k + at::arange(16);
    EXPECT_TRUE(at::allclose(weights.values.select(2, k - 1), wanted * valid)) << k;
  }
}

TEST(Formula, GivesTokensThatAreNotValidWeightZero) {
  for (const char* text : {"log(ce) + 1", "1 / ce", "ce - 0.5", "ce ^ -0.5", "quantile(ce, 0.5)", "4 - position"})
    EXPECT_EQ(weights(text)[4], 0) << text;
  FakeStep nothing(at::zeros({1, 5}, at::kBool));
  nothing.signals["policy.loss"] = at::zeros({1, 5});
  EXPECT_EQ(test::weigh(*formula("quantile(ce, 0.5) - ce"), nothing).values.abs().sum().item<float>(), 0);
}

TEST(Formula, InsideTheLossItAnswersForTheTokensInHand) {
  FakeStep step(at::tensor(std::vector<int64_t>{1, 1, 0}).to(at::kBool));
  step.signals["policy.loss"] = at::tensor(std::vector<float>{1, 2, 0});
  step.head_in_hand = 2;
  EXPECT_TRUE(at::allclose(test::weigh(*formula("log(ce) + head"), step).values,
                           at::tensor(std::vector<float>{2, 2 + std::log(2.0F), 0})));
}

TEST(Formula, AConstantIsFoldedAndOneIsUniform) {
  FakeStep step(at::ones({2, 3, 4}, at::kBool));
  EXPECT_EQ(test::weigh(*formula("1"), step).meaning, Weights::Meaning::uniform);
  EXPECT_EQ(test::weigh(*formula("exp(0) * (3 - 2)"), step).meaning, Weights::Meaning::uniform);
  EXPECT_TRUE(at::equal(test::weigh(*formula("clamp(2 ^ 3, 0, 1 / 2)"), step).values, at::full({2, 3, 4}, 0.5F)));
}

/// "option byte: message" of a refused formula, or "taken".
std::string refusal(const std::string& text) {
  const BadOption bad = test::refused(*formula(text));
  return bad.option().empty() ? "taken" : bad.option() + " " + std::to_string(bad.at()) + ": " + bad.what();
}

void expect_refused(const std::string& text, size_t at, const std::string& words) {
  const std::string found = refusal(text);
  EXPECT_TRUE(found.starts_with("weight " + std::to_string(at) + ": ")) << text << " -> " << found;
  EXPECT_NE(found.find(words), std::string::npos) << text << " -> " << found;
}

TEST(Formula, SaysWhereItIsWrong) {
  expect_refused("", 0, "found the end");
  expect_refused("1 +", 3, "found the end");
  expect_refused("ce + cee", 5, "unknown name 'cee'; did you mean 'ce'? Known names: ce, ref");
  expect_refused("entropie * 2", 0, "did you mean 'entropy'?");
  expect_refused("1 - foo(ce)", 4, "unknown name 'foo'.");
  expect_refused("previos_ce", 0, "did you mean 'previous_ce'?");
  expect_refused("previous_ce(2)", 11, "previous_ce is not a function");
  for (const char* text : {"policy_loss", "value_loss", "data_entropy", "_loss", "Amateur_loss", "amateur_rank"})
    expect_refused(text, 0, "and NAME_loss and NAME_entropy of a [references.NAME]");
  expect_refused("amateur_loss(2)", 12, "a reference's loss or entropy is not a function");
  expect_refused("(1 - ce", 7, "wanted ')' for the '(' at byte 0, found the end");
  expect_refused("1 - ce)", 6, "')' without a '('");
  expect_refused("ce ce", 3, "wanted an operator, found 'c'");
  expect_refused("ce ** 2", 4, "a power is a ^ b");
  expect_refused("ce \xE2\x88\x92 1", 3, "found '\xE2\x88\x92'");
  expect_refused("1 < ce < 2", 7, "a second comparison");
  expect_refused("1e999 * ce", 0, "not a number");
}

TEST(Formula, SaysWhichFunctionIsUsedWrongly) {
  expect_refused("exp(ce, 2)", 0, "exp(x) takes 1, found 2");
  expect_refused("2 * min(ce)", 4, "min(a, b) takes 2, found 1");
  expect_refused("exp()", 0, "takes 1, found 0");
  expect_refused("exp * 2", 0, "exp is a function: exp(x)");
  expect_refused("ce(2)", 2, "ce is not a function");
  expect_refused("quantile(2, 0.5) * ce", 9, "differs from token to token");
  expect_refused("quantile(head, 0.5) * ce", 9, "differs from token to token");
  expect_refused("quantile(ce, ce)", 13, "q must be a constant");
  expect_refused("quantile(ce, 1.5)", 13, "between 0 and 1");
  expect_refused("clamp(ce, ref, 2)", 10, "limits must be constants");
  expect_refused("clamp(ce, 3, 2)", 10, "smallest is larger");
  expect_refused("1 - signed(ce)", 4, "x must be the whole formula");
  expect_refused("signed(ce) + 1", 0, "x must be the whole formula");
  expect_refused("signed", 0, "signed is a function: signed(x)");
  expect_refused("1 - top_mass", 4, "top_mass is a function: top_mass(k)");
  expect_refused("top_mas(5)", 0, "did you mean 'top_mass'?");
  expect_refused("top_mass(ce)", 9, "must be a constant");
  expect_refused("top_mass(0)", 9, "a whole number from 1 to 1000");
  expect_refused("ce * top_mass(2.5)", 14, "a whole number");
  expect_refused("top_mass(5) - top_mass(6)", 23, "found top_mass of 5 and of 6 tokens, wanted one");
}

TEST(Formula, SaysWhatCannotBeANumber) {
  expect_refused("ce / 0", 5, "division by zero");
  expect_refused("ce / (2 - 2)", 5, "division by zero");
  expect_refused("1 / 0", 4, "division by zero");
  expect_refused("ce * log(0)", 5, "not finite");
  expect_refused("ce * (0 - 1) ^ 0.5", 13, "not finite");
  expect_refused("exp(1000) * ce", 0, "not finite");
  expect_refused("-1", 0, "negative, which only signed(x) may be");
}

TEST(Formula, AFormulaFromOutsideCannotFillTheStack) {
  expect_refused(std::string(100000, '(') + "ce", 100, "nested too deeply");
  EXPECT_NE(refusal(std::string(100000, '-') + "ce").find("nested too deeply"), std::string::npos);
  std::string powers = "ce", sums = "ce";
  for (int i = 0; i < 20000; ++i) powers += "^1", sums += "+1";
  EXPECT_NE(refusal(powers).find("nested too deeply"), std::string::npos);
  EXPECT_EQ(refusal(sums), "taken");
}

/// Focal weights as a plugin would compute them.
Tensor focal_by_hand(TokenStep& step) {
  const Tensor probability = step.get(Signal::policy_loss).neg().exp();
  return (1 - probability).clamp_min(0).pow(2);
}

/// CPU seconds of this thread, which exclude other load.
double thread_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return double(now.tv_sec) + double(now.tv_nsec) * 1e-9;
}

/// The fastest of many calls of each; the two are measured alternately.
std::pair<double, double> fastest(const std::function<void()>& one, const std::function<void()>& two) {
  std::pair<double, double> best{1e9, 1e9};
  const auto seconds = [](const std::function<void()>& call) {
    const double start = thread_seconds();
    for (int i = 0; i < 10; ++i) call();
    return (thread_seconds() - start) / 10;
  };
  for (int turn = 0; turn < 150; ++turn) {
    best.first = std::min(best.first, seconds(one));
    best.second = std::min(best.second, seconds(two));
  }
  return best;
}

TEST(Formula, IsAsFastAsThePluginThatItReplaces) {
  const at::AutoGradMode as_the_host_calls(false);
  at::set_num_threads(1);  // more would wait for concurrent tests
  for (const std::vector<int64_t>& shape : {std::vector<int64_t>{4096}, std::vector<int64_t>{8, 1024}}) {
    FakeStep step(at::ones(shape, at::kBool));
    step.signals["policy.loss"] = at::rand(shape) * 9;
    const auto plugin = formula("(1 - exp(-ce))^2");
    EXPECT_TRUE(at::allclose(test::weigh(*plugin, step).values, focal_by_hand(static_cast<HeadStep&>(step))));
    const auto [by_formula, by_hand] =
        fastest([&] { test::weigh(*plugin, step); }, [&] { focal_by_hand(static_cast<HeadStep&>(step)); });
    RecordProperty("microseconds_formula_" + std::to_string(shape.size()) + "d", std::to_string(by_formula * 1e6));
    RecordProperty("microseconds_by_hand_" + std::to_string(shape.size()) + "d", std::to_string(by_hand * 1e6));
    EXPECT_LE(by_formula, 1.05 * by_hand)
        << shape.size() << " dimensions: " << by_formula * 1e6 << " us against " << by_hand * 1e6;
  }
}

}  // namespace
}  // namespace wmtp
