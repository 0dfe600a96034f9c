// faulty_adapter: adds zero to the attention's matrices, until the call `call` fails in the way that `fault` selects.
#include <stdexcept>
#include <wmtp/plugin.hpp>

namespace {

class FaultyAdapter : public wmtp::LinearAdapter {
 public:
  void options(wmtp::Options& o) override {
    o.text("call", call_, "which call goes wrong", {"declare", "forward", "merged"});
    o.text("fault", fault_, "how", {"exception", "shape", "argument"});
  }
  bool trains(const std::string&) const override { return false; }
  std::vector<wmtp::Param> declare(const wmtp::Linear& layer) const override {
    if (call_ == "declare") throw std::runtime_error("the adapter has given up");
    return {{.name = "shift", .shape = {1, layer.out}, .columns = wmtp::Cut::out}};
  }
  wmtp::Tensor forward(const wmtp::Linear&, const wmtp::Tensor& x, wmtp::LinearCall& call) const override {
    const wmtp::Tensor y = call.base(x);
    if (call_ == "forward" && fault_ == "argument") x.zero_();
    return call_ == "forward" && fault_ != "argument" ? gone_wrong(y) : y + call.scale(y, "shift");
  }
  wmtp::Tensor merged(const wmtp::Linear&, const wmtp::Tensor& weight,
                      const std::vector<wmtp::Tensor>&) const override {
    if (call_ == "merged" && fault_ == "argument") weight.zero_();
    return call_ == "merged" && fault_ != "argument" ? gone_wrong(weight) : weight;
  }

 private:
  wmtp::Tensor gone_wrong(const wmtp::Tensor& right) const {
    if (fault_ == "exception") throw std::runtime_error("the adapter has given up");
    return right.narrow(0, 0, 1);
  }

  std::string call_ = "forward", fault_ = "exception";
};

}  // namespace

WMTP_ADAPTER(FaultyAdapter, "faulty_adapter", "1.0", "fails in the way that its options select")
