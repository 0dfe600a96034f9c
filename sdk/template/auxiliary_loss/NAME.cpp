// @NAME@: weight * sum of p^2 over the vocabulary, with the policy's probabilities p: a penalty on certainty.
// Change this example.
#include <wmtp/plugin.hpp>

class @CLASS@ : public wmtp::AuxiliaryLoss {
 public:
  // Declares each key of the [auxiliary_loss] table once: name, variable (its value is the default), help, range.
  void options(wmtp::Options& o) override { o.scheduled("weight", weight_, "factor on the loss", 0, 1000); }

  // One number for each token. The host differentiates it to the logits.
  wmtp::Tensor loss(wmtp::LogitsStep& step) override {
    const wmtp::Tensor p = step.logits().softmax(1);
    return p.square().sum(1) * weight_.at(step.number());
  }

 private:
  wmtp::Scheduled weight_ = 0.1;
};

WMTP_AUXILIARY_LOSS(@CLASS@, "@NAME@", "1.0", "a penalty on certain predictions")
