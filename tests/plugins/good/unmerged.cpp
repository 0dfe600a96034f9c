// unmerged: an adapter whose merged() forgets what its forward() does.
#include <wmtp/plugin.hpp>

namespace {

class Unmerged : public wmtp::Adapter {
 public:
  bool trains(const std::string&) const override { return false; }
  std::vector<wmtp::Param> declare(const wmtp::Slot& slot) const override {
    return {{.name = "factor", .shape = {1, slot.out}, .lr_scale = 100}};
  }
  wmtp::Tensor forward(const wmtp::Slot&, const wmtp::Tensor& x, wmtp::Call& call) const override {
    const wmtp::Tensor y = call.base(x);
    return y + call.scale(y, "factor");
  }
  wmtp::Tensor merged(const wmtp::Slot&, const wmtp::Tensor& weight, const std::vector<wmtp::Tensor>&) const override {
    return weight;
  }
};

}  // namespace

WMTP_ADAPTER(Unmerged, "unmerged", "1.0", "forgets what it learned when it is merged")
