// prompt_weight: w = weight for a token of the prompt, 1 for a token of the answer: trains on the prompt too, with a
// lower weight (a common option of fine-tuning services; studied by Huerta-Enochian and Ko 2024, arXiv 2401.13586).
// weight = 0 ignores prompts but still divides by their number of tokens; weight = 1 treats both equally.
#include <wmtp/plugin.hpp>

namespace {

class PromptWeight : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override { o.scheduled("weight", weight_, "weight of a prompt token", 0, 10); }
  wmtp::Needs needs() const override { return {.when = wmtp::When::before, .prompts = true}; }

  wmtp::Weights weigh(wmtp::BatchStep& step) override {
    const wmtp::Tensor prompt = step.batch().kind.eq(1).to(at::kFloat);
    return wmtp::Weights::by_target(1 + (weight_.at(step.number()) - 1) * prompt);
  }

 private:
  wmtp::Scheduled weight_ = 0.1;
};

}  // namespace

WMTP_PIPELINE(PromptWeight, "prompt_weight", "1.0", "also trains on prompts, with a separate weight")
