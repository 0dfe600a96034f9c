// small_lora: y = x W^T + (alpha / rank) (x A^T) B^T on the attention's four matrices; W is frozen.
// A [rank,in] is uniform within 1/sqrt(in), B [out,rank] is zero, so that training starts from the unchanged model.
#include <cmath>
#include <wmtp/plugin.hpp>

class SmallLora : public wmtp::LinearAdapter {
 public:
  void options(wmtp::Options& o) override {
    o.integer("rank", rank_, "inner dimension", 1, 1024);
    o.number("alpha", alpha_, "scale: alpha / rank", 0);
  }
  bool trains(const std::string&) const override { return false; }
  std::vector<wmtp::Param> declare(const wmtp::Linear& layer) const override {
    if (!is_attention(layer.name)) return {};
    return {{.name = "lora_A",
             .shape = {rank_, layer.in},
             .init = wmtp::Param::Init::uniform,
             .bound = 1 / std::sqrt(double(layer.in)),
             .columns = wmtp::Cut::in},
            {.name = "lora_B", .shape = {layer.out, rank_}, .rows = wmtp::Cut::out}};
  }
  wmtp::Tensor forward(const wmtp::Linear&, const wmtp::Tensor& x, wmtp::LinearCall& call) const override {
    return call.base(x) + call.linear(call.linear(x, "lora_A"), "lora_B") * scale();
  }
  wmtp::Tensor merged(const wmtp::Linear&, const wmtp::Tensor& weight,
                      const std::vector<wmtp::Tensor>& params) const override {
    return weight + at::matmul(params[1], params[0]) * scale();
  }

 private:
  static bool is_attention(const std::string& name) {
    for (const char* end : {".wq", ".wk", ".wv", ".wo"})
      if (name.ends_with(end)) return true;
    return false;
  }
  double scale() const { return alpha_ / double(rank_); }

  int64_t rank_ = 4;
  double alpha_ = 8;
};

WMTP_ADAPTER(SmallLora, "small_lora", "1.0", "low-rank updates beside the attention's matrices")
