// overselects: gives a weight to every token, though it states that at most half have one; counts its calls in a state.
#include <wmtp/plugin.hpp>

namespace {

class Overselects : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {.when = wmtp::When::head, .reads = {wmtp::Signal::policy_loss}}; }
  wmtp::Weights weigh(wmtp::HeadStep& step) override {
    wmtp::Tensor& calls = step.state("calls", at::zeros({}, step.valid().options().dtype(at::kFloat)));
    calls.add_(1);
    step.metric("overselects/calls", calls, at::ones_like(calls));
    return wmtp::Weights::by_source(step.valid().to(at::kFloat), /*max_nonzero_share=*/0.5);
  }
};

}  // namespace

WMTP_PIPELINE(Overselects, "overselects", "1.0", "weighs more tokens than it states")
