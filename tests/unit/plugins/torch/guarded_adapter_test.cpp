#include "plugins/torch/guarded_adapter.hpp"

#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <stdexcept>

#include "base/error.hpp"

namespace wmtp {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const Linear layer{"layers.0.attention.wk", 8, 4};

/// An adapter that returns what the test sets.
struct Answers final : LinearAdapter {
  std::function<std::vector<Param>()> declared = [] { return std::vector<Param>{}; };
  std::function<Tensor()> output = [] { return Tensor(); };
  bool trains(const std::string& name) const override {
    if (name.empty()) throw 42;
    return true;
  }
  std::vector<Param> declare(const Linear&) const override { return declared(); }
  Tensor forward(const Linear&, const Tensor&, LinearCall&) const override { return output(); }
  Tensor merged(const Linear&, const Tensor&, const std::vector<Tensor>&) const override { return output(); }
};

struct NoCall final : LinearCall {
  bool training() const override { return true; }
  Tensor base(const Tensor& x) override { return x; }
  Tensor linear(const Tensor& x, const std::string&) override { return x; }
  Tensor scale(const Tensor& x, const std::string&) override { return x; }
  Tensor weight() override { return {}; }
  Tensor value(const std::string&) override { return {}; }
  Tensor dropout(const Tensor& x, double) override { return x; }
};

template <class Ask>
std::string refusal(Ask ask) {
  try {
    ask();
  } catch (const Error& error) {
    EXPECT_EQ(error.status(), ExitStatus::plugin);
    return error.what();
  }
  return "";
}

std::string forward_refusal(const Tensor& x, std::function<Tensor()> output) {
  auto answers = std::make_unique<Answers>();
  answers->output = std::move(output);
  const GuardedAdapter adapter("mine", std::move(answers));
  NoCall call;
  return refusal([&] { adapter.forward(layer, x, call); });
}

std::string merged_refusal(std::function<Tensor()> output) {
  auto answers = std::make_unique<Answers>();
  answers->output = std::move(output);
  const GuardedAdapter adapter("mine", std::move(answers));
  return refusal([&] { adapter.merged(layer, at::zeros({4, 8}), {}); });
}

TEST(GuardedAdapter, ExceptionsOfEachCallAreReportedWithThePluginAndTheCall) {
  const auto gives_up = []() -> Tensor { throw std::runtime_error("the adapter has given up"); };
  EXPECT_EQ(forward_refusal(at::zeros({2, 3, 8}), gives_up), "plugin mine: forward() threw: the adapter has given up");
  EXPECT_EQ(merged_refusal(gives_up), "plugin mine: merged() threw: the adapter has given up");
  auto answers = std::make_unique<Answers>();
  answers->declared = []() -> std::vector<Param> { throw std::runtime_error("nothing to declare"); };
  const GuardedAdapter adapter("mine", std::move(answers));
  EXPECT_EQ(refusal([&] { adapter.declare(layer); }), "plugin mine: declare() threw: nothing to declare");
  EXPECT_THAT(refusal([&] { adapter.trains(""); }), HasSubstr("plugin mine: trains() threw"));
}

TEST(GuardedAdapter, AnOutputOfAnotherFormIsReportedWithFoundAndWanted) {
  const Tensor x = at::zeros({2, 3, 8}, at::kBFloat16);
  const std::string where = "plugin mine: forward() of layers.0.attention.wk: returned ";
  EXPECT_EQ(forward_refusal(x, [] { return at::zeros({2, 3, 4}, at::kBFloat16); }), "");
  EXPECT_EQ(forward_refusal(x, [] { return Tensor(); }), where + "an undefined tensor, wanted one of shape [2, 3, 4]");
  EXPECT_EQ(forward_refusal(x,
                            [] {
                              return at::zeros({2, 3, 8}, at::kBFloat16);
                            }),
            where + "a tensor of shape [2, 3, 8], wanted [2, 3, 4]");
  EXPECT_EQ(forward_refusal(x, [] { return at::zeros({2, 3, 4}); }), where + "a tensor of type Float, wanted BFloat16");
  EXPECT_EQ(forward_refusal(x,
                            [] {
                              return at::zeros({2, 3, 4}, at::TensorOptions(at::kBFloat16).device(at::kMeta));
                            }),
            where + "a tensor on meta, wanted cpu");
  EXPECT_THAT(forward_refusal(x,
                              [] {
                                return at::zeros({2, 3, 4}, at::kBFloat16).to_sparse();
                              }),
              HasSubstr("of layout Sparse, wanted a dense one"));
}

TEST(GuardedAdapter, AMergedWeightOfAnotherFormIsReportedWithFoundAndWanted) {
  const std::string where = "plugin mine: merged() of layers.0.attention.wk: returned ";
  EXPECT_EQ(merged_refusal([] { return at::zeros({8, 4}).t(); }), "") << "a view is a weight";
  EXPECT_EQ(merged_refusal([] { return Tensor(); }), where + "an undefined tensor, wanted one of shape [4, 8]");
  EXPECT_EQ(merged_refusal([] { return at::zeros({8, 4}); }), where + "a tensor of shape [8, 4], wanted [4, 8]");
  EXPECT_EQ(merged_refusal([] {
              return at::zeros({4, 8}, at::kDouble);
            }),
            where + "a tensor of type Double, wanted Float");
}

TEST(GuardedAdapter, AParameterThatCannotBeCreatedIsReportedWithItsName) {
  const auto declared = [](const Param& param) {
    auto answers = std::make_unique<Answers>();
    answers->declared = [param] { return std::vector<Param>{param}; };
    const GuardedAdapter adapter("mine", std::move(answers));
    return refusal([&] { adapter.declare(layer); });
  };
  EXPECT_EQ(declared({"m", {1, 4}, Param::Init::row_norms}), "");
  for (const Param& wrong : {Param{"m", {1, 8}, Param::Init::row_norms}, Param{"m", {4, 1}, Param::Init::row_norms},
                             Param{"m", {4}}, Param{"m", {0, 4}}, Param{"m", {1, 4}, Param::Init::zeros, 0, 0.0},
                             Param{"m", {1, 4}, Param::Init::zeros, 0, NAN}})
    EXPECT_THAT(declared(wrong),
                AllOf(HasSubstr("plugin mine: declare() of layers.0.attention.wk"), HasSubstr("'m' must")));
}

}  // namespace
}  // namespace wmtp
