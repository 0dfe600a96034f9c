// @NAME@: y = (x W^T) * g: a factor for each output of the chosen layers, 1 at first, is all that trains; after IA3 (Liu
// et al. 2022, arXiv 2205.05638). An example to change.
#include <algorithm>
#include <wmtp/plugin.hpp>

class @CLASS@ : public wmtp::Adapter {
 public:
  // Each key of the [adapter] table once: name, variable (its value is the default), help, choices.
  void options(wmtp::Options& o) override {
    o.texts("targets", targets_, "layers that get a factor for each output", {"wq", "wk", "wv", "wo", "w1", "w2", "w3"});
  }

  // Nothing of the model itself; what `declare` gives always trains.
  bool trains(const std::string&) const override { return false; }

  // A declared parameter begins at zero, so it holds g - 1.
  std::vector<wmtp::Param> declare(const wmtp::Slot& slot) const override {
    if (!is_target(slot)) return {};
    return {{.name = "factor", .shape = {1, slot.out}, .decays = false}};
  }

  wmtp::Tensor forward(const wmtp::Slot&, const wmtp::Tensor& x, wmtp::Call& call) const override {
    const wmtp::Tensor y = call.base(x);
    return y + call.scale(y, "factor");
  }

  // W with its rows multiplied by g: what `forward` does, folded in.
  wmtp::Tensor merged(const wmtp::Slot&, const wmtp::Tensor& weight,
                      const std::vector<wmtp::Tensor>& params) const override {
    return weight * (1 + params[0]).t();
  }

 private:
  /// "layers.3.attention.wq" is named by its last part.
  bool is_target(const wmtp::Slot& slot) const {
    const std::string last = slot.name.substr(slot.name.rfind('.') + 1);
    return std::find(targets_.begin(), targets_.end(), last) != targets_.end();
  }

  std::vector<std::string> targets_ = {"wk", "wv", "w2"};
};

WMTP_ADAPTER(@CLASS@, "@NAME@", "1.0", "a trained factor for each output of some layers")
