// @NAME@: w = min(loss / width, 1): a token whose loss has fallen below `width` nats counts less, the nearer to zero the
// less. An example to change.
#include <wmtp/plugin.hpp>

class @CLASS@ : public wmtp::Weighting {
 public:
  // Each key of the [pipeline] table once: name, variable (its value is the default), help, range.
  void options(wmtp::Options& o) override {
    o.number("width", width_, "loss from which on a token counts fully", 0.01, 100);
  }

  // The weight of a token follows from its own loss, so the host asks inside the loss and needs one pass only.
  wmtp::Needs needs() const override { return {.when = wmtp::When::token, .reads = {{"policy", "loss"}}}; }

  wmtp::Weights weigh(wmtp::Step& step) override {
    const wmtp::Tensor loss = step.get({"policy", "loss"});
    return wmtp::Weights::by_source((loss / width_).clamp(0, 1));
  }

 private:
  double width_ = 5;
};

WMTP_PIPELINE(@CLASS@, "@NAME@", "1.0", "tokens that are nearly known count less")
