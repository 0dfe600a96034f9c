// rho1: selective language modelling (Lin et al. 2024, "Rho-1: Not All Tokens Are What You Need", arXiv 2404.07965,
// equations 3 to 5), applied to each head of a multi-token model on its own.
//
//   score = policy loss - reference loss          "signed": what the reference has learned and the policy has not
//           |policy loss - reference loss|        "absolute"
//           reference loss                        "difficult"
//   w = 1 where score >= quantile(score, 1 - keep), else 0; ties are kept
//
// The quantile is torch.quantile (linear interpolation) over the valid tokens of the head's micro-batch: of all ranks,
// or with per_rank of this rank alone, which needs no exchange and depends on the layout.
#include <wmtp/plugin.hpp>

namespace {

using wmtp::Tensor;

class Rho1 : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.number("keep", keep_, "share of the tokens that is kept", 1e-6, 1);
    o.text("mode", mode_, "score: signed = policy - reference, absolute = |policy - reference|, difficult = reference",
           {"signed", "absolute", "difficult"});
    o.flag("per_rank", per_rank_, "threshold over this rank's tokens alone instead of all ranks'");
  }

  wmtp::Needs needs() const override {
    return {.when = wmtp::When::head, .reads = {{"policy", "loss"}, {"reference", "loss"}}};
  }

  wmtp::Weights weigh(wmtp::Step& step) override {
    const Tensor policy = step.get({"policy", "loss"}), reference = step.get({"reference", "loss"});
    const Tensor valid = step.valid(), excess = policy - reference;
    const Tensor selected = select(step, score(excess, reference), valid).logical_and(valid).to(at::kFloat);
    report(step, policy, excess, valid.to(at::kFloat), selected);
    return wmtp::Weights::by_source(selected);
  }

 private:
  Tensor score(const Tensor& excess, const Tensor& reference) const {
    if (mode_ == "difficult") return reference;
    return mode_ == "absolute" ? excess.abs() : excess;
  }

  Tensor select(wmtp::Step& step, const Tensor& score, const Tensor& valid) const {
    if (keep_ == 1) return valid;
    wmtp::Across& across = step.across();
    return score >=
           (per_rank_ ? across.quantile_here(score, valid, 1 - keep_) : across.quantile(score, valid, 1 - keep_));
  }

  static void report(wmtp::Step& step, const Tensor& policy, const Tensor& excess, const Tensor& valid,
                     const Tensor& selected) {
    const Tensor unselected = valid - selected;
    step.metric("rho1/selection_ratio", selected.sum(), valid.sum());
    step.metric("rho1/excess_mean", (excess * valid).sum(), valid.sum());
    step.metric("rho1/ce_selected", (policy * selected).sum(), selected.sum());
    step.metric("rho1/ce_unselected", (policy * unselected).sum(), unselected.sum());
  }

  double keep_ = 0.6;
  std::string mode_ = "signed";
  bool per_rank_ = false;
};

}  // namespace

WMTP_PIPELINE(Rho1, "rho1", "1.0", "keeps the tokens whose loss exceeds a reference model's the most")
