// label_smoothing: makes the cross entropy that of a target distribution with 1 - share + share / V on the token and
// share / V on each other entry of the vocabulary (Szegedy et al. 2016, arXiv 1512.00567, section 7). The difference
// from the plain cross entropy is share * (z_target - mean of all z), with the logits z. With plugin = "baseline" the
// total is torch's cross_entropy(..., label_smoothing = share).
#include <wmtp/plugin.hpp>

namespace {

class LabelSmoothing : public wmtp::AuxiliaryLoss {
 public:
  void options(wmtp::Options& o) override {
    o.scheduled("share", share_, "probability that is spread over the vocabulary", 0, 1);
  }
  wmtp::Tensor loss(wmtp::LogitsStep& step) override {
    const wmtp::Tensor logits = step.logits();
    const wmtp::Tensor target = logits.gather(1, step.targets().unsqueeze(1)).squeeze(1);
    return (target - logits.mean(1)) * share_.at(step.number());
  }

 private:
  wmtp::Scheduled share_ = 0.1;
};

}  // namespace

WMTP_AUXILIARY_LOSS(LabelSmoothing, "label_smoothing", "1.0", "spreads a share of the target over the vocabulary")
