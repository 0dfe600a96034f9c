// baseline: w = 1 for every token: the plain multi-token loss, and the baseline of every comparison.
//
// With every pipeline, the step's loss is the mean of the heads' losses; Gloeckle et al. 2024 (arXiv 2404.19737) sum
// them. Gradients are those of the paper divided by the number of heads, so divide the paper's clip norm by that number
// too (train.clip_norm). AdamW itself is invariant to a constant factor.
#include <wmtp/plugin.hpp>

namespace {

class Baseline : public wmtp::Weighting {
 public:
  wmtp::Needs needs() const override { return {.when = wmtp::When::before}; }
  wmtp::Weights weigh(wmtp::BatchStep&) override { return wmtp::Weights::uniform(); }
};

}  // namespace

WMTP_PIPELINE(Baseline, "baseline", "1.0", "every token has the same weight")
