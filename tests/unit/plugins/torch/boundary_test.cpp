#include "plugins/torch/boundary.hpp"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "plugins/torch/options_binder.hpp"

namespace wmtp {
namespace {

/// Status and message of the error that a call through the boundary raises.
template <class Function>
std::pair<int, std::string> fault(Function function) {
  try {
    guarded("rho1", "weigh", function);
  } catch (const Error& error) {
    return {int(error.status()), error.what()};
  }
  return {0, ""};
}

TEST(Boundary, EveryThrowNamesThePluginTheCallAndTheText) {
  using Fault = std::pair<int, std::string>;
  EXPECT_EQ(fault([] { throw std::runtime_error("no reason"); }), Fault(3, "plugin rho1: weigh() threw: no reason"));
  EXPECT_EQ(fault([] { throw 42; }),
            Fault(3, "plugin rho1: weigh() threw an exception that is not derived from std::exception"));
  EXPECT_EQ(fault([] { throw std::bad_alloc(); }).first, 8);
  const auto [status, text] = fault([] { at::ones({2, 3}).reshape({5}); });
  EXPECT_EQ(status, 3);
  EXPECT_NE(text.find("plugin rho1: weigh() threw: shape '[5]' is invalid"), std::string::npos) << text;
  EXPECT_EQ(text.find("frame #"), std::string::npos) << "a stack trace is no message";
}

TEST(Boundary, WhatThePluginReturnsComesBack) {
  EXPECT_EQ(guarded("rho1", "weigh", [] { return 7; }), 7);
  int number = 1;
  EXPECT_EQ(&guarded("rho1", "weigh", [&]() -> int& { return number; }), &number);
}

TEST(Boundary, TheHostsOwnErrorsKeepTheirStatus) {
  EXPECT_EQ(fault([] { throw Error(ExitStatus::peer, "rank 1 is gone"); }),
            (std::pair<int, std::string>(6, "rank 1 is gone")));
}

TEST(BoundaryDeathTest, TerminateNamesThePlugin) {
  EXPECT_EXIT(guarded("rho1", "weigh", [] { std::terminate(); }), testing::ExitedWithCode(3), "plugin rho1: weigh");
}

WeightsCall a_call() { return {"rho1", 7, 2, {2, 4}, {2, 4}, false}; }

std::string form_fault(const WeightsCall& call, const Weights& weights) {
  try {
    check_weights_form(call, weights);
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::plugin);
    return error.what();
  }
  return "";
}

TEST(WeightsForm, WrongShapesAndTypesAreReportedWithFoundAndWanted) {
  EXPECT_EQ(form_fault(a_call(), Weights::uniform()), "");
  EXPECT_EQ(form_fault(a_call(), Weights::by_source(at::ones({2, 4}))), "");
  EXPECT_EQ(form_fault(a_call(), Weights::by_source(at::ones({1, 4}))),
            "plugin rho1: weigh() at step 7, head 2: returned by_source of shape [1,4], wanted [2,4]");
  EXPECT_NE(form_fault(a_call(), Weights::by_source(at::ones({2, 4}, at::kDouble))).find("Double, wanted Float"),
            std::string::npos);
  EXPECT_NE(form_fault(a_call(), Weights::by_source({})).find("without values"), std::string::npos);
  EXPECT_NE(form_fault(a_call(), Weights{Weights::Meaning::uniform, at::ones({2, 4})}).find("uniform"),
            std::string::npos);
  EXPECT_EQ(form_fault(a_call(), Weights::by_source(at::ones({2, 4}, at::kMeta))),
            "plugin rho1: weigh() at step 7, head 2: returned values on meta, wanted cpu, the batch's device");
  EXPECT_EQ(form_fault(a_call(), Weights::by_source(at::ones({2, 4}), 1.5)),
            "plugin rho1: weigh() at step 7, head 2: returned share 1.5, wanted a fraction over 0 and at most 1");
  WeightsCall token = a_call();
  token.by_target.clear();
  token.by_source = {9};
  EXPECT_NE(form_fault(token, Weights::by_target(at::ones({2, 4}))).find("only by_source"), std::string::npos);
}

std::vector<float> faults(const WeightsCall& call, const Tensor& values) {
  const Tensor flags = weight_faults(call, Weights::by_source(values));
  return {flags[0].item<float>(), flags[1].item<float>()};
}

TEST(WeightFaults, AreFlagsAndOnlyThen) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  const auto with = [](float value) {
    Tensor values = at::ones({2, 4});
    values[1][2] = value;
    return values;
  };
  EXPECT_EQ(faults(a_call(), with(3)), (std::vector<float>{0, 0}));
  EXPECT_EQ(faults(a_call(), with(0)), (std::vector<float>{0, 0}));
  EXPECT_EQ(faults(a_call(), with(nan))[0], 1);
  EXPECT_EQ(faults(a_call(), with(infinite)), (std::vector<float>{1, 0}));
  EXPECT_EQ(faults(a_call(), with(-infinite))[0], 1);
  EXPECT_EQ(faults(a_call(), with(-0.5)), (std::vector<float>{0, 1}));
  EXPECT_EQ(faults(a_call(), at::ones({0, 4})), (std::vector<float>{0, 0}));
  WeightsCall signed_call = a_call();
  signed_call.signed_weights = true;
  EXPECT_EQ(faults(signed_call, with(-0.5)), (std::vector<float>{0, 0}));
  EXPECT_EQ(weight_faults(a_call(), Weights::uniform()).sum().item<float>(), 0);
}

TEST(WeightFaults, TheFirstBadOneIsNamed) {
  Tensor values = at::ones({2, 4});
  values[1][1] = -2;
  values[1][3] = std::numeric_limits<float>::quiet_NaN();
  const auto text = [&](const WeightsCall& call) {
    try {
      refuse_weights(call, Weights::by_source(values));
    } catch (const Error& error) {
      return std::string(error.what());
    }
  };
  EXPECT_NE(text(a_call()).find("at step 7, head 2: returned -2 at [1,1], wanted a finite number, not negative"),
            std::string::npos);
  WeightsCall signed_call = a_call();
  signed_call.signed_weights = true;
  EXPECT_NE(text(signed_call).find("returned nan at [1,3]"), std::string::npos) << text(signed_call);
}

/// A plugin's schema, as a lambda.
struct Schema {
  std::function<void(Options&)> state;
  void options(Options& o) { state(o); }
};

std::string schema_fault(const std::function<void(Options&)>& state) {
  OptionsRecorder recorder;
  try {
    state(recorder);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(OptionsRecorder, RefusesASchemaThatIsWrongInItself) {
  double x = 2;
  std::string mode = "fast";
  EXPECT_EQ(schema_fault([&](Options& o) { o.number("x", x, "help", 0, 2); }), "");
  EXPECT_NE(schema_fault([&](Options& o) { o.number("x", x, "help", 0, 1); }).find("outside"), std::string::npos);
  EXPECT_NE(schema_fault([&](Options& o) { o.number("X", x, "help"); }), "");
  EXPECT_NE(schema_fault([&](Options& o) { o.number("plugin", x, "help"); }), "");
  EXPECT_NE(schema_fault([&](Options& o) { o.number("x", x, ""); }), "");
  EXPECT_NE(schema_fault([&](Options& o) { o.number("x", x, "a"), o.number("x", x, "b"); }).find("twice"),
            std::string::npos);
  EXPECT_NE(schema_fault([&](Options& o) { o.text("mode", mode, "help", {"slow"}); }).find("'fast'"),
            std::string::npos);
  double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_NE(schema_fault([&](Options& o) { o.number("x", nan, "help"); }), "");
}

TEST(OptionsBinder, SetsWhatIsGivenAndKeepsTheRest) {
  double keep = 0.6;
  int64_t rank = 4;
  std::vector<std::string> targets{"wq"};
  Schema plugin{[&](Options& o) {
    o.number("keep", keep, "h");
    o.integer("rank", rank, "h");
    o.texts("targets", targets, "h");
  }};
  bind_options("p", plugin, {{"keep", 0.5}, {"targets", std::vector<std::string>{"wv", "wo"}}});
  EXPECT_EQ(keep, 0.5);
  EXPECT_EQ(rank, 4);
  EXPECT_EQ(targets, (std::vector<std::string>{"wv", "wo"}));
  EXPECT_THROW(bind_options("p", plugin, {{"rank", 0.5}}), Error);
  EXPECT_THROW(bind_options("p", plugin, {{"unknown", 0.5}}), Error);
}

TEST(OptionsBinder, SetsANumberThatChangesOverTheRun) {
  Scheduled keep = 0.6;
  Schema plugin{[&](Options& o) { o.scheduled("keep", keep, "h", 0, 1); }};
  bind_options("p", plugin, {{"keep", 0.5}});
  EXPECT_EQ(keep.at(1), 0.5);
  EXPECT_EQ(keep.at(1000), 0.5);
  bind_options("p", plugin, {{"keep", Fields{{}, {{"from", 1.0}, {"to", 0.6}, {"steps", 4}}, {}}}});
  EXPECT_EQ(keep.at(0), 1.0) << "before the first step";
  EXPECT_EQ(keep.at(1), 1.0);
  EXPECT_EQ(keep.at(3), 0.8);
  EXPECT_EQ(keep.at(5), 0.6);
  EXPECT_EQ(keep.at(1000), 0.6);
  EXPECT_NE(schema_fault([&](Options& o) { o.scheduled("keep", keep, "help", 0, 1); }).find("changes over the run"),
            std::string::npos);
}

}  // namespace
}  // namespace wmtp
