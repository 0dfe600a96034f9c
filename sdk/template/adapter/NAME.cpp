// @NAME@: y = (x W^T) * g: trains only a factor g, initially 1, for each output of the selected layers; after IA3 (Liu
// et al. 2022, arXiv 2205.05638). Change this example.
#include <algorithm>
#include <wmtp/plugin.hpp>

class @CLASS@ : public wmtp::LinearAdapter {
 public:
  // Declares each key of the [adapter] table once: name, variable (its value is the default), help, choices.
  void options(wmtp::Options& o) override {
    o.texts("targets", targets_, "layers that get a factor for each output",
            {"wq", "wk", "wv", "wo", "w1", "w2", "w3"});
  }

  // No parameter of the model itself; parameters from `declare` always train.
  bool trains(const std::string&) const override { return false; }

  // A declared parameter is initially zero, so it stores g - 1.
  std::vector<wmtp::Param> declare(const wmtp::Linear& layer) const override {
    if (!is_target(layer)) return {};
    return {{.name = "factor", .shape = {1, layer.out}, .decays = false, .columns = wmtp::Cut::out}};
  }

  wmtp::Tensor forward(const wmtp::Linear&, const wmtp::Tensor& x, wmtp::LinearCall& call) const override {
    const wmtp::Tensor y = call.base(x);
    return y + call.scale(y, "factor");
  }

  // W with its rows multiplied by g: equivalent to `forward`.
  wmtp::Tensor merged(const wmtp::Linear&, const wmtp::Tensor& weight,
                      const std::vector<wmtp::Tensor>& params) const override {
    return weight * (1 + params[0]).t();
  }

 private:
  /// `targets` contains the last part of the name, as in "layers.3.attention.wq".
  bool is_target(const wmtp::Linear& layer) const {
    const std::string last = layer.name.substr(layer.name.rfind('.') + 1);
    return std::find(targets_.begin(), targets_.end(), last) != targets_.end();
  }

  std::vector<std::string> targets_ = {"wk", "wv", "w2"};
};

WMTP_ADAPTER(@CLASS@, "@NAME@", "1.0", "trains a factor for each output of some layers")
