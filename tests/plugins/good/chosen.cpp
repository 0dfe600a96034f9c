// chosen: weights by the signal that its options name: a weighting whose needs depend on its options, and that refuses
// values within their ranges.
#include <wmtp/plugin.hpp>

const wmtp::ReferenceSignal amateur_loss{"amateur", wmtp::Signal::reference_loss};

class Chosen : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.text("by", by_,
           "nothing, loss, excess (over the reference's loss, or over the amateur's) or value (of the frozen "
           "value model)",
           {"nothing", "loss", "excess", "amateur", "value"});
    o.flag("pairs", pairs_, "whether it wants pairs of answers");
    o.text("marks", marks_, "one letter for each mark; none may be x");
    o.number("low", low_, "smallest weight", 0, 10);
    o.number("high", high_, "largest weight", 0, 10);
  }

  wmtp::Needs needs() const override {
    if (const size_t bad = marks_.find('x'); bad != std::string::npos)
      throw wmtp::BadOption("marks", "no mark is called x", int64_t(bad));
    if (low_ > high_) throw wmtp::BadOption("low", "above high");
    wmtp::Needs needs{.when = wmtp::When::head, .pairs = pairs_};
    if (by_ != "nothing") needs.reads.push_back(wmtp::Signal::policy_loss);
    if (by_ == "excess") needs.reads.push_back(wmtp::Signal::reference_loss);
    if (by_ == "amateur") needs.references.push_back(amateur_loss);
    if (by_ == "value") needs.values.push_back(wmtp::ValueSignal::frozen());
    return needs;
  }

  wmtp::Weights weigh(wmtp::HeadStep& step) override {
    if (by_ == "nothing") return wmtp::Weights::uniform();
    wmtp::Tensor score = step.get(wmtp::Signal::policy_loss);
    if (by_ == "excess") score = score - step.get(wmtp::Signal::reference_loss);
    if (by_ == "amateur") score = score - step.get(amateur_loss);
    if (by_ == "value") score = step.value(wmtp::ValueSignal::frozen());
    return wmtp::Weights::by_source(score.clamp(low_, high_));
  }

 private:
  std::string by_ = "nothing", marks_;
  bool pairs_ = false;
  double low_ = 0, high_ = 10;
};

WMTP_PIPELINE(Chosen, "chosen", "1.0", "weights by what its options name")
