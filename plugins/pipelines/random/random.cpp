// random: weights that are independent of the tokens, the control for every selection and weighting.
//
//   kind = "keep"       w = 1 where u < keep, else 0, for each head and position: the control for rho1
//   kind = "lognormal"  w = clamp(exp(mu + sigma z), min, max) for each token: the control for verifiable; the defaults
//                       are the mean, deviation and clamp of a trained critic's weights (wooshikwon/weighted_mtp)
//
// z = Phi^-1(u) is normal (inverse distribution function); mean and deviation are those of the weights before the
// clamp: sigma^2 = ln(1 + deviation^2 / mean^2), mu = ln(mean) - sigma^2 / 2. u is uniform, the same in every layout.
#include <cmath>
#include <wmtp/plugin.hpp>

namespace {

using wmtp::Tensor;

struct LogNormal {
  double mean = 1.328, deviation = 0.981, min = 0.1, max = 3;
};

class Random : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.text("kind", kind_, "keep = a random share of the tokens, lognormal = uneven random weights",
           {"keep", "lognormal"});
    o.scheduled("keep", keep_, "keep: fraction of tokens to keep", 1e-6, 1);
    o.number("mean", shape_.mean, "lognormal: mean of the weights before the clamp", 1e-3, 1e3);
    o.number("deviation", shape_.deviation, "lognormal: standard deviation of the weights before the clamp", 0, 1e3);
    o.number("min", shape_.min, "lognormal: smallest weight", 0, 1e3);
    o.number("max", shape_.max, "lognormal: largest weight", 0, 1e3);
    if (kind_ == "lognormal") o.refuse("keep", "it has no effect with kind = \"lognormal\"");
    if (kind_ == "lognormal") return;
    for (const char* name : {"mean", "deviation", "min", "max"})
      o.refuse(name, "it has no effect with kind = \"keep\"");
  }

  wmtp::Needs needs() const override {
    if (shape_.min > shape_.max) throw wmtp::BadOption("min", "min is larger than max");
    return {.when = wmtp::When::before};
  }

  wmtp::Weights weigh(wmtp::BatchStep& step) override {
    const Tensor u = step.uniform(0), valid = step.valid();
    if (kind_ == "lognormal") return wmtp::Weights::by_target(lognormal(u.select(-1, 0)));
    const double keep = keep_.at(step.number());
    const Tensor selected = u.lt(keep).logical_and(valid);
    step.metric("random/selection_ratio", selected.sum(), valid.sum());
    return wmtp::Weights::by_source(selected.to(at::kFloat), keep);
  }

 private:
  Tensor lognormal(const Tensor& u) const {
    const double variance = std::log1p(std::pow(shape_.deviation / shape_.mean, 2));
    const Tensor z = at::special_ndtri(u.to(at::kDouble).clamp_min(1e-12));  // u = 0 would give minus infinity
    const Tensor weights = (z * std::sqrt(variance) + (std::log(shape_.mean) - variance / 2)).exp();
    return weights.clamp(shape_.min, shape_.max).to(at::kFloat);
  }

  std::string kind_ = "keep";
  wmtp::Scheduled keep_ = 0.6;
  LogNormal shape_;
};

}  // namespace

WMTP_PIPELINE(Random, "random", "1.0", "random weights, a share of the tokens or log-normal: a control")
