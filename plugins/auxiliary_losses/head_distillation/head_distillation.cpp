// head_distillation: heads 2 and up learn the distribution q that head 1 predicts for the same token, so that more of
// their drafts are accepted. q is not differentiated; p is the head's distribution.
//
//   "kl"  KL(q || p); with `top`, q is head 1's distribution over its `top` likeliest tokens (MTP-D, arXiv 2603.23911)
//   "tv"  total variation, half the sum of |q - p|: 1 minus the probability that a sampled draft is accepted (Leviathan
//         et al. 2023, arXiv 2211.17192; as a loss: arXiv 2606.12370)
#include <wmtp/plugin.hpp>

namespace {

class HeadDistillation : public wmtp::AuxiliaryLoss {
 public:
  void options(wmtp::Options& o) override {
    o.scheduled("weight", weight_, "factor on the distance", 0, 1000);
    o.text("distance", distance_, "Kullback-Leibler divergence, or total variation", {"kl", "tv"});
    o.integer("top", top_, "likeliest tokens of head 1 that count; 0: all", 0, 1 << 20);
    if (distance_ == "tv") o.refuse("top", "it has no effect on the total variation, which is of all tokens");
  }
  wmtp::LogitsNeeds needs() const override { return {.head_1 = true}; }
  bool applies(int64_t head) const override { return head > 1; }
  wmtp::Tensor loss(wmtp::LogitsStep& step) override { return distance(step) * weight_.at(step.number()); }

 private:
  wmtp::Tensor distance(wmtp::LogitsStep& step) const {
    const wmtp::Tensor teacher = step.head_1_logits(), student = step.logits().log_softmax(1);
    if (distance_ == "tv") return (teacher.softmax(1) - student.exp()).abs().sum(1) / 2;
    if (top_ == 0 || top_ >= step.vocab_size()) return divergence(teacher, student);
    const auto [likeliest, tokens] = teacher.topk(top_, 1);
    return divergence(likeliest, student.gather(1, tokens));
  }
  static wmtp::Tensor divergence(const wmtp::Tensor& teacher, const wmtp::Tensor& student) {
    const wmtp::Tensor q = teacher.log_softmax(1);
    return (q.exp() * (q - student)).sum(1);
  }

  wmtp::Scheduled weight_ = 1;
  std::string distance_ = "kl";
  int64_t top_ = 0;
};

}  // namespace

WMTP_AUXILIARY_LOSS(HeadDistillation, "head_distillation", "1.0", "teaches later heads what head 1 predicts")
