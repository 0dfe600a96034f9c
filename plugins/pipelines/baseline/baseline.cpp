// baseline: w = 1. Every token counts the same: the multi-token loss as it is, and the control of every comparison.
#include <wmtp/plugin.hpp>

namespace {

class Baseline : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {.when = wmtp::When::before}; }
  wmtp::Weights weigh(wmtp::Step&) override { return wmtp::Weights::uniform(); }
};

}  // namespace

WMTP_PIPELINE(Baseline, "baseline", "1.0", "every token counts the same")
