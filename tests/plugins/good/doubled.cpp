// doubled: twice the weights of the inner weighting. A minimal wrapper.
#include <wmtp/plugin.hpp>

class Doubled : public wmtp::Wrapper {
 public:
  wmtp::Needs needs() const override { return inner().needs(); }
  wmtp::Weights weigh(wmtp::TokenStep& step) override { return twice(inner().weigh(step), step); }
  wmtp::Weights weigh(wmtp::HeadStep& step) override { return twice(inner().weigh(step), step); }
  wmtp::Weights weigh(wmtp::BatchStep& step) override { return twice(inner().weigh(step), step); }

 private:
  static wmtp::Weights twice(wmtp::Weights weights, wmtp::Step& step) {
    if (weights.meaning == wmtp::Weights::Meaning::uniform)
      return wmtp::Weights::by_source(at::full_like(step.valid(), 2, at::kFloat));
    weights.values = weights.values * 2;
    return weights;
  }
};

WMTP_PIPELINE(Doubled, "doubled", "1.0", "the weights of another weighting, twice")
