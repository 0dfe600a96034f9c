// z_loss: weight * (log sum exp of the logits)^2, which keeps the logits near normalized ones (PaLM, Chowdhery et al.
// 2022, arXiv 2204.02311, section 5, with 1e-4).
#include <wmtp/plugin.hpp>

namespace {

class ZLoss : public wmtp::AuxiliaryLoss {
 public:
  void options(wmtp::Options& o) override {
    o.scheduled("weight", weight_, "factor on the squared log-sum-exp", 0, 1000);
  }
  wmtp::Tensor loss(wmtp::LogitsStep& step) override {
    return step.logits().logsumexp(1).square() * weight_.at(step.number());
  }

 private:
  wmtp::Scheduled weight_ = 1e-4;
};

}  // namespace

WMTP_AUXILIARY_LOSS(ZLoss, "z_loss", "1.0", "keeps the logits' log-sum-exp near 0")
