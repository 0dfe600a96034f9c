// Each trial of `plugins check`: a sound plugin passes it, and one that breaks this promise fails it with the reason.
// The plugins are linked into this program. (Shipped ones, and those that crash or hang: contract/trials_test.cpp.)
#include "plugins/torch/check/try_plugin.hpp"

#include <gmock/gmock.h>

#include <map>
#include <wmtp/plugin.hpp>

#include "plugins/description_json.hpp"
#include "plugins/trials.hpp"
#include "support/data_fixture.hpp"

namespace wmtp {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

/// The entry of a plugin in this program.
template <class Plugin>
class Linked {
 public:
  explicit Linked(const char* name)
      : entry_(detail::entry_of<Plugin>(name, "1.0", "made by the test")), here_(entry_) {}

 private:
  PluginEntry entry_;
  detail::BuiltIn here_;
};

/// Weighs a head's tokens by a tensor that `weights` makes of their losses and of which count.
template <class Plugin>
class ByHead : public Weighting {
 public:
  Needs needs() const override { return {.when = When::head, .reads = {Signal::policy_loss}}; }
  Weights weigh(HeadStep& step) override {
    const Tensor losses = step.get(Signal::policy_loss), counted = step.valid().to(at::kFloat);
    return Weights::by_source(static_cast<Plugin*>(this)->weights(losses, counted));
  }
};

struct Sound : ByHead<Sound> {
  Tensor weights(const Tensor& losses, const Tensor& counted) { return counted * losses.clamp(0, 10); }
};
struct Negative : ByHead<Negative> {
  Tensor weights(const Tensor&, const Tensor& counted) { return counted - 2; }
};
struct NotANumber : ByHead<NotANumber> {
  Tensor weights(const Tensor& losses, const Tensor&) { return at::full_like(losses, NAN); }
};
struct WrongShape : ByHead<WrongShape> {
  Tensor weights(const Tensor&, const Tensor& counted) { return counted.narrow(0, 0, 1); }
};
struct NeedsATarget : ByHead<NeedsATarget> {
  Tensor weights(const Tensor&, const Tensor& counted) { return counted / counted.sum(); }
};
struct NeedsALoss : ByHead<NeedsALoss> {
  Tensor weights(const Tensor& losses, const Tensor& counted) {
    return at::where(counted.gt(0), losses / losses, counted);
  }
};
struct CountsInTheProcess : ByHead<CountsInTheProcess> {
  Tensor weights(const Tensor&, const Tensor& counted) {
    static double calls = 0;
    return counted * ++calls;
  }
};
struct CountsInTheInstance : ByHead<CountsInTheInstance> {
  Tensor weights(const Tensor&, const Tensor& counted) { return counted * ++calls; }
  double calls = 0;
};

/// Counts where it is saved.
struct CountsInTheState : Weighting {
  Needs needs() const override { return {.when = When::head}; }
  Weights weigh(HeadStep& step) override {
    const Tensor calls = step.state("calls", at::zeros({})).add_(1);
    return Weights::by_source(step.valid().to(at::kFloat) * calls);
  }
};

struct TwiceTheInner : Wrapper {
  Needs needs() const override { return inner().needs(); }
  Weights weigh(BatchStep& step) override {
    Weights weights = inner().weigh(step);
    weights.values = weights.values * 2;
    return weights;
  }
};

struct SquaredValue : Objective {
  Needs needs() const override { return {.values = {ValueSignal::of_policy("v")}, .heads = {{"v"}}}; }
  Tensor loss(ValueStep& step) override {
    return ((step.leaf(ValueSignal::of_policy("v")) - 1).square() * step.valid()).sum() /
           step.answer_tokens().clamp_min(1);
  }
};
struct NotAScalar : SquaredValue {
  Tensor loss(ValueStep& step) override { return step.leaf(ValueSignal::of_policy("v")); }
};
struct NotFinite : SquaredValue {
  Tensor loss(ValueStep& step) override { return SquaredValue::loss(step) * NAN; }
};

/// Adds a multiple of each output, which `merged` of `Forgets` leaves out.
struct Scales : LinearAdapter {
  bool trains(const std::string&) const override { return false; }
  std::vector<Param> declare(const Linear& layer) const override {
    return {{.name = "factor", .shape = {1, layer.out}, .lr_scale = 100, .columns = Cut::out}};
  }
  Tensor forward(const Linear&, const Tensor& x, LinearCall& call) const override {
    const Tensor y = call.base(x);
    return y + call.scale(y, "factor");
  }
  Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>& params) const override {
    return weight + weight * params[0].reshape({-1, 1});
  }
};
struct Forgets : Scales {
  Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>&) const override { return weight; }
};

const Linked<Sound> sound("sound");
const Linked<Negative> negative("negative");
const Linked<NotANumber> not_a_number("not_a_number");
const Linked<WrongShape> wrong_shape("wrong_shape");
const Linked<NeedsATarget> needs_a_target("needs_a_target");
const Linked<NeedsALoss> needs_a_loss("needs_a_loss");
const Linked<CountsInTheProcess> in_the_process("counts_in_the_process");
const Linked<CountsInTheInstance> in_the_instance("counts_in_the_instance");
const Linked<CountsInTheState> in_the_state("counts_in_the_state");
const Linked<TwiceTheInner> twice("twice_the_inner");
const Linked<SquaredValue> squared("squared_value");
const Linked<NotAScalar> not_a_scalar("not_a_scalar");
const Linked<NotFinite> not_finite("not_finite");
const Linked<Scales> scales("scales");
const Linked<Forgets> forgets("forgets");

std::string request_for(const std::string& trial, const std::string& name, PluginRole role) {
  PluginSetting plugin;
  plugin.description.kind = role == PluginRole::adapter ? PluginKind::adapter : PluginKind::pipeline;
  plugin.description.role = role;
  plugin.description.name = name;
  plugin.description.version = "1.0";
  return nlohmann::json{{"trial", trial}, {"plugin", plugin}, {"device", "cpu"}}.dump();
}

/// The measurement of a trial that the plugin passes.
std::string report_of(const std::string& trial, const std::string& name, PluginRole role = PluginRole::weighting) {
  return nlohmann::json::parse(try_plugin(request_for(trial, name, role))).at("report");
}

/// The failed trials with their reasons; all trials but that of the speed, which cannot be failed.
std::map<std::string, std::string> failures_of(const std::string& name, PluginRole role = PluginRole::weighting) {
  std::map<std::string, std::string> failures;
  for (const Trial& trial : trials_for_role(role, "cpu")) {
    if (trial.name == "speed") continue;
    try {
      try_plugin(request_for(trial.name, name, role));
    } catch (const Error& error) {
      EXPECT_EQ(error.status(), ExitStatus::plugin) << error.what();
      failures[trial.name] = error.what();
    }
  }
  return failures;
}

std::vector<std::string> names_of(const std::map<std::string, std::string>& failures) {
  std::vector<std::string> names;
  for (const auto& [name, reason] : failures) names.push_back(name);
  return names;
}

TEST(TryPlugin, PassesASoundPluginOfEveryRole) {
  EXPECT_THAT(failures_of("sound"), IsEmpty());
  EXPECT_THAT(failures_of("counts_in_the_state"), IsEmpty());
  EXPECT_THAT(failures_of("twice_the_inner", PluginRole::wrapper), IsEmpty());
  EXPECT_THAT(failures_of("squared_value", PluginRole::objective), IsEmpty());
  EXPECT_THAT(failures_of("scales", PluginRole::adapter), IsEmpty());
}

TEST(TryPlugin, ReportsWhatItMeasured) {
  EXPECT_THAT(report_of("trains", "sound"), testing::MatchesRegex("4 steps, loss [0-9.]+ to [0-9.]+"));
  EXPECT_EQ(report_of("again", "sound"), "4 steps, bit-identical");
  EXPECT_EQ(report_of("resumes", "sound"), "0 tensors of state");
  EXPECT_EQ(report_of("resumes", "counts_in_the_state"), "1 tensor of state");
  EXPECT_THAT(report_of("merged", "scales", PluginRole::adapter), testing::MatchesRegex("losses [0-9.]+ and [0-9.]+"));
}

TEST(TryPlugin, MeasuresTheTimeOfThePluginAlone) {
  EXPECT_THAT(report_of("speed", "sound"), testing::MatchesRegex("[0-9]+ ns per token"));
  EXPECT_THAT(report_of("speed", "squared_value", PluginRole::objective), testing::MatchesRegex("[0-9]+ ns per token"));
  EXPECT_THAT(report_of("speed", "scales", PluginRole::adapter), HasSubstr(" times a step of full training"));
}

TEST(TryPlugin, FailsWeightsThatNoLossCanHave) {
  const auto of_negative = failures_of("negative");
  EXPECT_THAT(of_negative.at("trains"), AllOf(HasSubstr("plugin negative: weigh() at step 1, head 1: returned -"),
                                              HasSubstr("wanted a finite number, not negative")));
  const auto of_nan = failures_of("not_a_number");
  EXPECT_THAT(of_nan.at("trains"), AllOf(HasSubstr("returned nan at [0,0]"), HasSubstr("wanted a finite number")));
  const auto of_shape = failures_of("wrong_shape");
  EXPECT_THAT(of_shape.at("trains"),
              AllOf(HasSubstr("returned by_source of shape [1,24]"), HasSubstr("wanted [4,24]")));
}

TEST(TryPlugin, FailsAPluginThatDividesByWhatMayBeZero) {
  EXPECT_THAT(failures_of("needs_a_target"), ElementsAre(Pair("no_targets", HasSubstr("wanted a finite number"))));
  EXPECT_THAT(failures_of("needs_a_loss"), ElementsAre(Pair("extremes", HasSubstr("wanted a finite number"))));
}

TEST(TryPlugin, FailsAPluginThatChangesItsAnswer) {
  const auto in_process = failures_of("counts_in_the_process");
  EXPECT_THAT(names_of(in_process), ElementsAre("again", "resumes"));
  EXPECT_THAT(in_process.at("again"), AllOf(HasSubstr("step 1: loss "), HasSubstr("the second time"),
                                            HasSubstr("keep no state outside the instance")));
  EXPECT_THAT(failures_of("counts_in_the_instance"),
              ElementsAre(Pair("resumes", AllOf(HasSubstr("step 3: loss "), HasSubstr("after resuming"),
                                                HasSubstr("keep what outlives a call in Step::state")))));
}

TEST(TryPlugin, FailsALossThatIsNoFiniteScalar) {
  EXPECT_THAT(failures_of("not_a_scalar", PluginRole::objective).at("trains"), HasSubstr("scalar"));
  EXPECT_THAT(failures_of("not_finite", PluginRole::objective).at("trains"), HasSubstr("step 1: "));
}

TEST(TryPlugin, FailsAnAdapterThatForgetsWhatItLearnedWhenItIsMerged) {
  EXPECT_THAT(failures_of("forgets", PluginRole::adapter),
              ElementsAre(Pair("merged", AllOf(HasSubstr("after 4 steps the loss is "), HasSubstr("from merged()")))));
}

TEST(TryPlugin, RefusesAPluginThatIsNotLinked) {
  EXPECT_THAT(error_of(ExitStatus::plugin, [] { try_plugin(request_for("trains", "absent", PluginRole::weighting)); }),
              HasSubstr("plugin absent: not linked into this build"));
  EXPECT_THAT(error_of(ExitStatus::plugin, [] { try_plugin(request_for("trains", "sound", PluginRole::objective)); }),
              HasSubstr("its role is 'weighting', wanted 'objective'"));
}

}  // namespace
}  // namespace wmtp
