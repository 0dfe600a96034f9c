// Requirements of every shipped pipeline: its options are well declared; it returns finite numbers of the required
// shape, the same when repeated and when continued from saved state; it makes the same collective calls whatever tokens
// its rank has; and it reads nothing on the host.
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>

#include <set>

#include "fake_step.hpp"
#include "plugin_files.hpp"
#include "plugins/torch/boundary.hpp"

namespace wmtp {
namespace {

using test::FakeStep;
using test::OwnRead;

constexpr int64_t B = 2, S = 16, H = 4;

/// A pipeline of any role behind one interface.
class Subject {
 public:
  explicit Subject(const std::string& name) : name_(name) {
    const PluginEntry& entry = test::entry_of("pipeline", name);
    if (entry.objective) {
      objective_.reset(entry.objective());
    } else {
      if (entry.wrapper) inner_ = test::weighting("focal");
      weighting_ = test::weighting(name, {}, inner_.get());
    }
  }
  Needs needs() const { return weighting_ ? weighting_->needs() : objective_->needs(); }
  void options(Options& options) { weighting_ ? weighting_->options(options) : objective_->options(options); }

  /// The loss, or the weights (undefined for uniform ones), checked as by the host.
  Tensor answer(FakeStep& step) {
    if (objective_) return objective_->loss(step);
    const at::NoGradGuard no_grad;
    const Weights weights = test::weigh(*weighting_, step);
    WeightsCall call{name_, step.step, step.head_in_hand, {B, S}, step.valid().sizes().vec(), needs().signed_weights};
    if (needs().when == When::token) call.by_target.clear();
    const OwnRead own;
    check_weights_form(call, weights);
    EXPECT_EQ(weight_faults(call, weights).sum().item<float>(), 0.0F) << "not finite, or negative";
    return weights.values;
  }

 private:
  std::string name_;
  std::unique_ptr<Weighting> inner_, weighting_;
  std::unique_ptr<Objective> objective_;
};

/// A right and a wrong answer to one problem; the second is padded.
Batch a_batch() {
  Batch batch = test::answer_batch({"ppppaaaaaaaaaaaa", "ppppaaaaaaaaa..."}, {1, 0});
  batch.tokens = at::randint(16, {B, S}, at::kLong);
  batch.partner = at::arange(B, at::kLong).flip(0);
  return batch;
}

Tensor valid_of_all_heads(const Batch& batch, bool prompts) {
  const Tensor target = prompts ? batch.kind.ge(1) : batch.kind.eq(2);
  const Tensor valid = at::zeros({B, S, H}, at::kBool);
  for (int64_t k = 1; k <= H; ++k) valid.select(-1, k - 1).narrow(1, 0, S - k).copy_(target.narrow(1, k, S - k));
  return valid;
}

/// The same in every call: only what the pipeline reads, in the shapes of its When.
FakeStep a_step(const Needs& needs, bool anything_valid = true) {
  at::manual_seed(11);
  const Batch batch = a_batch();
  Tensor valid = valid_of_all_heads(batch, needs.prompts);
  const bool one_head = needs.when == When::head || needs.when == When::token;
  if (one_head) valid = valid.select(-1, 1).contiguous();
  if (needs.when == When::token) valid = valid.flatten();
  if (!anything_valid) valid = at::zeros_like(valid);
  FakeStep step(valid);
  step.batch_in_hand = batch;
  step.head_in_hand = one_head ? 2 : 0;
  step.step = 50;  // after any warm-up
  for (const Signal signal : needs.reads)
    step.signals[to_text(signal)] = at::rand(valid.sizes()) * 9 * valid.to(at::kFloat);
  for (const ReferenceSignal& signal : needs.references)
    step.signals[to_text(signal)] = at::rand(valid.sizes()) * 9 * valid.to(at::kFloat);
  for (const ValueSignal& value : needs.values) step.signals[to_text(value)] = at::rand({B, S});
  return step;
}

class EveryPipeline : public testing::TestWithParam<std::string> {};

TEST_P(EveryPipeline, SaysWhoItIsAndStatesItsOptionsWell) {
  const PluginEntry& entry = test::entry_of("pipeline", GetParam());
  EXPECT_EQ(entry.name, GetParam());
  EXPECT_FALSE(std::string(entry.summary).empty());
  OptionsRecorder recorder;
  Subject subject(GetParam());
  EXPECT_NO_THROW(subject.options(recorder));
  for (const OptionSpec& option : recorder.specs()) {
    const bool is_number = option.type == OptionSpec::Type::number || option.type == OptionSpec::Type::integer;
    EXPECT_TRUE(!is_number || option.min) << option.name << " has no smallest value";
  }
  EXPECT_NO_THROW(subject.needs());
}

TEST_P(EveryPipeline, AnswersInTheRightShapeWithFiniteNumbersTheSameWayTwice) {
  Subject subject(GetParam());
  FakeStep first = a_step(subject.needs()), second = a_step(subject.needs());
  const Tensor one = subject.answer(first), two = subject.answer(second);
  ASSERT_EQ(one.defined(), two.defined());
  EXPECT_TRUE(!one.defined() || (at::equal(one, two) && at::isfinite(one).all().item<bool>()));
  EXPECT_EQ(first.metrics, second.metrics);
  for (const auto& [name, metric] : first.metrics)
    EXPECT_TRUE(std::isfinite(metric.first) && metric.second >= 0) << name;
}

TEST_P(EveryPipeline, GoesOnFromSavedStateAsIfItHadNeverStopped) {
  Subject lives(GetParam()), starts_again(GetParam());
  FakeStep step = a_step(lives.needs()), resumed = a_step(lives.needs());
  lives.answer(step);
  for (const auto& [name, tensor] : step.pipeline_state) resumed.pipeline_state[name] = tensor.clone();
  step.metrics.clear();
  const Tensor on = lives.answer(step), again = starts_again.answer(resumed);
  ASSERT_EQ(on.defined(), again.defined());
  EXPECT_TRUE(!on.defined() || at::equal(on, again)) << "it keeps something outside the step's state";
  EXPECT_EQ(step.metrics, resumed.metrics);
}

TEST_P(EveryPipeline, AsksAndReportsTheSameOnARankThatHasNothing) {
  Subject subject(GetParam());
  FakeStep full = a_step(subject.needs()), empty = a_step(subject.needs(), false);
  subject.answer(full);
  const Tensor nothing = subject.answer(empty);
  EXPECT_TRUE(!nothing.defined() || at::isfinite(nothing).all().item<bool>());
  EXPECT_EQ(full.num_collectives, empty.num_collectives);
  ASSERT_EQ(full.metrics.size(), empty.metrics.size());
  for (const auto& [name, metric] : empty.metrics) {
    EXPECT_TRUE(full.metrics.count(name)) << name;
    EXPECT_TRUE(std::isfinite(metric.first)) << name;
  }
}

thread_local int num_reads = 0;

/// Operations whose result or shape the host must read before it can continue: each drains a device's queue.
std::unique_ptr<at::ObserverContext> count_read(const at::RecordFunction& function) {
  static const std::set<std::string> reads{"aten::_local_scalar_dense",
                                           "aten::nonzero",
                                           "aten::masked_select",
                                           "aten::equal",
                                           "aten::unique",
                                           "aten::_unique2",
                                           "aten::bincount",
                                           "aten::repeat_interleave"};
  if (!OwnRead::now() && reads.count(function.name())) ++num_reads;
  return nullptr;
}

template <class Function>
int reads_in(Function&& function) {
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count_read, nullptr).scopes({at::RecordScope::FUNCTION}));
  num_reads = 0;
  function();
  at::removeCallback(handle);
  return num_reads;
}

TEST(ReadsByAPlugin, AreCounted) {
  EXPECT_EQ(reads_in([] { at::ones({3}).sum().item<float>(); }), 1);
  EXPECT_EQ(reads_in([] { at::ones({3}).index({at::ones({3}) > 0}); }), 1) << "a mask's size is read";
  EXPECT_EQ(reads_in([] {
              FakeStep step(at::ones({1, 3}, at::kBool));
              step.metric("m", at::ones({}), at::ones({}));
              step.quantile(at::ones({1, 3}), step.valid(), 0.5);
            }),
            0)
      << "the test's own step is none of the plugin's";
}

TEST_P(EveryPipeline, ReadsNothingOnTheHost) {
  Subject subject(GetParam());
  FakeStep step = a_step(subject.needs());
  EXPECT_EQ(reads_in([&] { subject.answer(step); }), 0) << "at its first call";
  EXPECT_EQ(reads_in([&] { subject.answer(step); }), 0) << "at a later call";
}

INSTANTIATE_TEST_SUITE_P(Shipped, EveryPipeline, testing::ValuesIn(test::shipped("pipeline")),
                         [](const auto& info) { return info.param; });

TEST(ShippedPipelines, AreAllThere) {
  const std::vector<std::string> names = test::shipped("pipeline");
  const std::set<std::string> found(names.begin(), names.end());
  for (const char* name :
       {"baseline", "critic", "dft", "entropy", "first_head", "focal", "formula", "frequency", "mean_excess", "mile",
        "prompt_weight", "random", "rho1", "shuffled", "truncation", "verifiable"})
    EXPECT_TRUE(found.count(name)) << name;
}

}  // namespace
}  // namespace wmtp
