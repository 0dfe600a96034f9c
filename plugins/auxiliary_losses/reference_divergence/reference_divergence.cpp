// reference_divergence: weight times the Kullback-Leibler divergence between the policy's distribution p and the frozen
// reference's q, in each token's context, so that training does not leave the model that it started from.
//
//   "forward"  KL(q || p): the policy keeps all that the reference finds likely
//   "reverse"  KL(p || q): the policy avoids what the reference finds unlikely
//
// With plugin = "dft" and the model itself as the reference it is ASFT (Zhu et al. 2025, "Anchored Supervised
// Fine-Tuning", arXiv 2509.23753).
#include <wmtp/plugin.hpp>

namespace {

class ReferenceDivergence : public wmtp::AuxiliaryLoss {
 public:
  void options(wmtp::Options& o) override {
    o.scheduled("weight", weight_, "factor on the divergence", 0, 1000);
    o.text("direction", direction_, "which distribution the mean is taken over: the reference's or the policy's",
           {"forward", "reverse"});
  }
  wmtp::LogitsNeeds needs() const override { return {.reference = true}; }
  wmtp::Tensor loss(wmtp::LogitsStep& step) override {
    const wmtp::Tensor policy = step.logits().log_softmax(1), reference = step.reference_logits().log_softmax(1);
    const wmtp::Tensor divergence = direction_ == "forward" ? (reference.exp() * (reference - policy)).sum(1)
                                                            : (policy.exp() * (policy - reference)).sum(1);
    return divergence * weight_.at(step.number());
  }

 private:
  wmtp::Scheduled weight_ = 0.05;
  std::string direction_ = "forward";
};

}  // namespace

WMTP_AUXILIARY_LOSS(ReferenceDivergence, "reference_divergence", "1.0", "keeps the policy near the frozen reference")
