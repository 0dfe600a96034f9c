// baseline: w = 1. Every token counts the same: the multi-token loss as it is, and the control of every comparison.
//
// The step's loss is the mean of the heads' losses, for every pipeline; Gloeckle et al. 2024 (arXiv 2404.19737) add
// them up. Gradients are those of the paper divided by the number of heads, so a train.clip_norm of the paper's is to
// be divided by it as well; AdamW itself does not see a constant factor.
#include <wmtp/plugin.hpp>

namespace {

class Baseline : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {.when = wmtp::When::before}; }
  wmtp::Weights weigh(wmtp::Step&) override { return wmtp::Weights::uniform(); }
};

}  // namespace

WMTP_PIPELINE(Baseline, "baseline", "1.0", "every token counts the same")
