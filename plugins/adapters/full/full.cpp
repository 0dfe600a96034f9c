// full: every parameter of the model trains, and none are added.
#include <wmtp/plugin.hpp>

namespace {

class Full : public wmtp::Adapter {
 public:
  bool trains(const std::string&) const override { return true; }
  wmtp::Tensor merged(const wmtp::Linear&, const wmtp::Tensor& weight,
                      const std::vector<wmtp::Tensor>&) const override {
    return weight;
  }
};

}  // namespace

WMTP_ADAPTER(Full, "full", "1.0", "trains every parameter of the model")
