// @NAME@: w = min(loss / width, 1): a token whose loss is below `width` nats has a lower weight, down to 0 at loss 0.
// Change this example.
#include <wmtp/plugin.hpp>

class @CLASS@ : public wmtp::Weighting {
 public:
  // Declares each key of the [pipeline] table once: name, variable (its value is the default), help, range.
  void options(wmtp::Options& o) override {
    o.number("width", width_, "loss, in nats, at which the weight reaches 1", 0.01, 100);
  }

  // A token's weight depends only on its own loss, so the host calls `weigh` inside the loss and needs only one pass.
  wmtp::Needs needs() const override { return {.when = wmtp::When::token, .reads = {wmtp::Signal::policy_loss}}; }

  wmtp::Weights weigh(wmtp::TokenStep& step) override {
    const wmtp::Tensor loss = step.get(wmtp::Signal::policy_loss);
    return wmtp::Weights::by_source((loss / width_).clamp(0, 1));
  }

 private:
  double width_ = 5;
};

WMTP_PIPELINE(@CLASS@, "@NAME@", "1.0", "tokens with a low loss have lower weights")
