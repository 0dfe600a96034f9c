// rho1: selective language modelling (Lin et al. 2024, "Rho-1: Not All Tokens Are What You Need", arXiv 2404.07965,
// equations 3 to 5; self-reference: section 3.4 and appendix H), applied to each head of a multi-token model
// separately.
//
//   score = policy loss - reference loss          "signed": what the reference has learned and the policy has not
//           |policy loss - reference loss|        "absolute"
//           reference loss                        "difficult"
//           -(reference loss)                     "self_loss": easy for a reference trained on the same text
//           -(reference entropy)                  "self_entropy": that reference is certain
//   hard    w = 1 where score >= quantile(score, 1 - keep), else 0; ties are kept, including those that differ by
//           rounding (wmtp::reaches). "self_both" keeps the tokens that both self_loss and self_entropy keep, each
//           with its own share `keep`
//   soft    w = N * softmax(score / temperature) over the N tokens: mean 1, every token has a weight (an extension that
//           the paper's appendix C names as future work)
//
// keep and temperature may change over the run: keep = {from = 1.0, to = 0.6, steps = 100} begins with every token.
//
// Equation 4 divides by the number of selected tokens, N k%, as train.normalize = "weights" does. By default a step's
// loss is divided by all valid tokens, as for every pipeline, so the gradient is `keep` times that of the paper and
// fewer steps are clipped at the same train.clip_norm. AdamW itself is invariant to a constant factor.
//
// The quantile is torch.quantile (linear interpolation). It and the softmax are over the valid tokens of the head's
// micro-batch: on all ranks, or with per_rank on this rank only, which needs no communication but depends on the
// layout.
#include <wmtp/plugin.hpp>

namespace {

using wmtp::BadOption;
using wmtp::Signal;
using wmtp::Tensor;

class Rho1 : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.scheduled("keep", keep_, "fraction of tokens to keep", 1e-6, 1);
    o.text(
        "mode", mode_,
        "score: signed = policy - reference, absolute = |policy - reference|, difficult = reference; self-reference: "
        "self_loss = low reference loss, self_entropy = low reference entropy, self_both = both",
        {"signed", "absolute", "difficult", "self_loss", "self_entropy", "self_both"});
    o.flag("per_rank", per_rank_, "compute the threshold over this rank's tokens instead of all ranks'");
    o.text("selection", selection_, "hard keeps a share of the tokens, soft weights all of them by a softmax",
           {"hard", "soft"});
    o.scheduled("temperature", temperature_, "soft: temperature in nats; smaller values make the weights more uneven",
                1e-6, 1e6);
    if (selection_ == "soft") o.refuse("keep", "selection = \"soft\" keeps every token");
    if (selection_ == "hard") o.refuse("temperature", "it has no effect with selection = \"hard\"");
  }

  wmtp::Needs needs() const override {
    if (selection_ == "soft" && mode_ == "self_both")
      throw BadOption("selection",
                      "mode = \"self_both\" has two scores, so there is no softmax over them; use \"hard\"");
    wmtp::Needs needs{.when = wmtp::When::head, .reads = {Signal::policy_loss, Signal::reference_loss}};
    if (reads_entropy()) needs.reads.push_back(Signal::reference_entropy);
    return needs;
  }

  wmtp::Weights weigh(wmtp::HeadStep& step) override {
    const Tensor policy = step.get(Signal::policy_loss), reference = step.get(Signal::reference_loss);
    const Tensor valid = step.valid(), excess = policy - reference, counted = valid.to(at::kFloat);
    step.metric("rho1/excess_mean", (excess * counted).sum(), counted.sum());
    if (selection_ == "soft") return wmtp::Weights::by_source(softmax(step, score(step, excess, reference), valid));

    const double keep = keep_.at(step.number());
    Tensor kept = valid;
    if (keep < 1) kept = above_threshold(step, score(step, excess, reference), valid).logical_and(valid);
    if (keep < 1 && mode_ == "self_both") kept = kept.logical_and(above_threshold(step, -reference, valid));
    const Tensor selected = kept.to(at::kFloat);
    report(step, policy, counted, selected);
    return wmtp::Weights::by_source(selected, keep);
  }

 private:
  bool reads_entropy() const { return mode_ == "self_entropy" || mode_ == "self_both"; }

  /// The score of the mode; for "self_both" the one by entropy.
  Tensor score(wmtp::HeadStep& step, const Tensor& excess, const Tensor& reference) const {
    if (reads_entropy()) return -step.get(Signal::reference_entropy);
    if (mode_ == "self_loss") return -reference;
    if (mode_ == "difficult") return reference;
    return mode_ == "absolute" ? excess.abs() : excess;
  }

  Tensor quantile(wmtp::HeadStep& step, const Tensor& score, const Tensor& valid, double q) const {
    return per_rank_ ? step.collectives().quantile_here(score, valid, q) : step.collectives().quantile(score, valid, q);
  }

  Tensor above_threshold(wmtp::HeadStep& step, const Tensor& score, const Tensor& valid) const {
    return wmtp::reaches(score, quantile(step, score, valid, 1 - keep_.at(step.number())));
  }

  /// Subtracts the largest score (quantile 1) first, so that no exponential exceeds 1 and their sum is at least 1.
  Tensor softmax(wmtp::HeadStep& step, const Tensor& score, const Tensor& valid) const {
    const Tensor away = (score - quantile(step, score, valid, 1)) / temperature_.at(step.number());
    const Tensor share = at::where(valid, away.exp(), 0.0);
    const Tensor here = at::stack({valid.sum().to(at::kDouble), share.sum(at::kDouble)});
    const Tensor all = per_rank_ ? here : step.collectives().sum(here);
    return share * (all[0] / all[1].clamp_min(1));
  }

  static void report(wmtp::HeadStep& step, const Tensor& policy, const Tensor& counted, const Tensor& selected) {
    const Tensor unselected = counted - selected;
    step.metric("rho1/selection_ratio", selected.sum(), counted.sum());
    step.metric("rho1/ce_selected", (policy * selected).sum(), selected.sum());
    step.metric("rho1/ce_unselected", (policy * unselected).sum(), unselected.sum());
  }

  wmtp::Scheduled keep_ = 0.6, temperature_ = 1;
  std::string mode_ = "signed", selection_ = "hard";
  bool per_rank_ = false;
};

}  // namespace

WMTP_PIPELINE(Rho1, "rho1", "1.2", "keeps the tokens whose loss most exceeds a reference model's")
