// faulty_auxiliary_loss: fails in the way that `fault` selects.
#include <stdexcept>
#include <wmtp/plugin.hpp>

class FaultyAuxiliaryLoss : public wmtp::AuxiliaryLoss {
 public:
  void options(wmtp::Options& o) override {
    o.text("fault", fault_, "what goes wrong", {"none", "shape", "type", "constant", "undeclared", "throws"});
  }
  wmtp::Tensor loss(wmtp::LogitsStep& step) override {
    const wmtp::Tensor logits = step.logits();
    if (fault_ == "shape") return logits.logsumexp(1, /*keepdim=*/true);
    if (fault_ == "type") return logits.logsumexp(1).to(at::kDouble);
    if (fault_ == "constant") return at::zeros_like(logits.detach().select(1, 0));
    if (fault_ == "undeclared") return step.reference_logits().logsumexp(1);
    if (fault_ == "throws") throw std::runtime_error("it gives up");
    return logits.logsumexp(1);
  }

 private:
  std::string fault_ = "none";
};

WMTP_AUXILIARY_LOSS(FaultyAuxiliaryLoss, "faulty_auxiliary_loss", "1.0", "fails in the way that its option selects")
