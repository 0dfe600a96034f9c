// unmerged: an adapter whose merged() omits what forward() adds.
#include <wmtp/plugin.hpp>

namespace {

class Unmerged : public wmtp::LinearAdapter {
 public:
  bool trains(const std::string&) const override { return false; }
  std::vector<wmtp::Param> declare(const wmtp::Linear& layer) const override {
    return {{.name = "factor", .shape = {1, layer.out}, .lr_scale = 100, .columns = wmtp::Cut::out}};
  }
  wmtp::Tensor forward(const wmtp::Linear&, const wmtp::Tensor& x, wmtp::LinearCall& call) const override {
    const wmtp::Tensor y = call.base(x);
    return y + call.scale(y, "factor");
  }
  wmtp::Tensor merged(const wmtp::Linear&, const wmtp::Tensor& weight,
                      const std::vector<wmtp::Tensor>&) const override {
    return weight;
  }
};

}  // namespace

WMTP_ADAPTER(Unmerged, "unmerged", "1.0", "forgets what it learned when it is merged")
