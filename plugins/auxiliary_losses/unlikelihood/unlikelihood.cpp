// unlikelihood: -weight * log(1 - p) for each token of an answer that is known to be wrong, with p the policy's
// probability of the token, and 0 for right and unknown answers (Welleck et al. 2020, "Neural Text Generation with
// Unlikelihood Training", arXiv 1908.04319). The cross entropy of wrong answers still counts as the pipeline weighs it.
#include <wmtp/plugin.hpp>

namespace {

class Unlikelihood : public wmtp::AuxiliaryLoss {
 public:
  void options(wmtp::Options& o) override {
    o.scheduled("weight", weight_, "factor on the tokens of wrong answers", 0, 1000);
  }
  wmtp::LogitsNeeds needs() const override { return {.correct = true}; }
  wmtp::Tensor loss(wmtp::LogitsStep& step) override {
    // log(1 - p) from the other logits, because 1 - p is 0 for a token that is almost certain.
    const wmtp::Tensor logits = step.logits(), target = step.targets().unsqueeze(1);
    const wmtp::Tensor others = logits.scatter(1, target, -std::numeric_limits<double>::infinity());
    const wmtp::Tensor is_wrong = step.correct().eq(0);
    return (logits.logsumexp(1) - others.logsumexp(1)) * is_wrong * weight_.at(step.number());
  }

 private:
  wmtp::Scheduled weight_ = 1;
};

}  // namespace

WMTP_AUXILIARY_LOSS(Unlikelihood, "unlikelihood", "1.0", "makes the tokens of wrong answers less likely")
