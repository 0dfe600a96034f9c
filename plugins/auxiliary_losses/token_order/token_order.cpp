// token_order: one head learns which tokens come soon, in the order in which they come (token order prediction, Zuhri
// et al. 2025, arXiv 2508.19228). Each token of the next `window` gets a score that falls by 1 with each position until
// its first occurrence; the loss is the cross entropy of the head's distribution with the softmax of these scores.
//
// The paper's auxiliary output is a linear layer of its own on the trunk; here it is one of the model's heads, which
// has a block of its own and shares the output layer. To train that head by this loss alone, give its cross entropy no
// weight: plugin = "formula", weight = "(head < 2) + (head > 2)".
#include <wmtp/plugin.hpp>

namespace {

class TokenOrder : public wmtp::AuxiliaryLoss {
 public:
  void options(wmtp::Options& o) override {
    o.scheduled("weight", weight_, "factor on the loss", 0, 1000);
    o.integer("head", head_, "the head that learns it", 1, 64);
    o.integer("window", window_, "number of upcoming tokens", 1, 1 << 16);
  }
  wmtp::LogitsNeeds needs() const override { return {.upcoming = window_}; }
  bool applies(int64_t head) const override { return head == head_; }
  wmtp::Tensor loss(wmtp::LogitsStep& step) override {
    constexpr double never = -std::numeric_limits<double>::infinity();
    const wmtp::Tensor logits = step.logits(), upcoming = step.upcoming();
    const wmtp::Tensor away = at::arange(window_, 0, -1, logits.options().requires_grad(false)).expand_as(upcoming);
    const wmtp::Tensor scores =
        at::full_like(logits.detach(), never)
            .scatter_reduce(1, upcoming.clamp_min(0), away.masked_fill(upcoming < 0, never), "amax");
    const wmtp::Tensor soon = scores.softmax(1);
    return -(soon * logits.log_softmax(1)).sum(1) * weight_.at(step.number());
  }

 private:
  wmtp::Scheduled weight_ = 1;
  int64_t head_ = 2, window_ = 32;
};

}  // namespace

WMTP_AUXILIARY_LOSS(TokenOrder, "token_order", "1.0", "teaches a head the order of the upcoming tokens")
