// lora: adds a low-rank update to the weights of the selected linear layers; the model itself is frozen, except for
// what [adapter] train and train_last choose.
//
//   LoRA    y = W x + s B A dropout(x), s = alpha / r; A [r,in] is drawn from U(+-1/sqrt(in)), B [out,r] is zero, so
//           training starts from the unchanged model. Hu et al., arXiv 2106.09685.
//   rsLoRA  s = alpha / sqrt(r), so that the size of the update does not shrink with the rank. Kalajdzievski,
//           arXiv 2312.03732.
//   DoRA    y = g (W x + s B A dropout(x)), row by row, g = m / ||W + s B A||; m [out] is initialized with the norms of
//           W's rows and trains without decay; the norm is a constant in backward. Liu et al., arXiv 2402.09353, 4.3.
//           PEFT computes W x + (g - 1) W dropout(x) + g s B A dropout(x), with dropout also on the input of the
//           rescaled W; without dropout the two are the same.
//   LoRA+   the learning rate of B is plus_ratio times that of A. Hayou et al., arXiv 2402.12354.
//
// optimizer.weight_decay applies to A and B separately: it pulls B A towards zero, not W + s B A.
#include <fnmatch.h>

#include <algorithm>
#include <cmath>
#include <wmtp/plugin.hpp>

namespace {

using wmtp::Cut;
using wmtp::Linear;
using wmtp::LinearCall;
using wmtp::Param;
using wmtp::Tensor;

class Lora : public wmtp::LinearAdapter {
 public:
  void options(wmtp::Options& o) override {
    o.integer("rank", rank_, "rank of the update", 1, 65536);
    o.number("alpha", alpha_, "the update is scaled by alpha / rank", 0, 1e6);
    o.number("dropout", dropout_, "dropout probability of the update's input in training", 0, 0.99);
    o.texts(
        "targets", targets_,
        "linear layers that get an update: wq, wk, wv, wo, w1, w2 and w3 in every block, or shell patterns of names "
        "such as layers.*.wq (trunk and head 1), extra_heads.* and layers.[0-7].attention.*");
    for (const std::string& target : targets_) check_name(target);
    o.flag("rslora", rslora_, "scale the update by alpha / sqrt(rank) instead");
    o.flag("dora", dora_, "train the length of each row of a weight separately from its direction");
    o.number("plus_ratio", plus_ratio_, "learning rate of B relative to that of A", 1e-3, 1e3);
  }

  bool trains(const std::string&) const override { return false; }

  void check(const std::vector<Linear>& layers) const override {
    for (const std::string& target : targets_)
      if (std::none_of(layers.begin(), layers.end(), [&](const Linear& layer) { return matches(target, layer.name); }))
        throw wmtp::BadOption("targets", '"' + target +
                                             "\" matches no linear layer of this model; names are like "
                                             "layers.0.attention.wq and extra_heads.0.feed_forward.w2");
  }

  std::vector<Param> declare(const Linear& layer) const override {
    if (std::none_of(targets_.begin(), targets_.end(),
                     [&](const std::string& target) { return matches(target, layer.name); }))
      return {};
    std::vector<Param> params{
        {.name = "lora_A",
         .shape = {rank_, layer.in},
         .init = Param::Init::uniform,
         .bound = 1 / std::sqrt(double(layer.in)),
         .columns = Cut::in},
        {.name = "lora_B", .shape = {layer.out, rank_}, .lr_scale = plus_ratio_, .rows = Cut::out}};
    if (dora_)
      params.push_back({.name = "magnitude",
                        .shape = {1, layer.out},
                        .init = Param::Init::row_norms,
                        .decays = false,
                        .columns = Cut::out});
    return params;
  }

  Tensor forward(const Linear&, const Tensor& x, LinearCall& call) const override {
    const Tensor update = call.linear(call.linear(call.dropout(x, dropout_), "lora_A") * scale(), "lora_B");
    const Tensor y = call.base(x) + update;
    if (!dora_) return y;
    const Tensor length = row_norms(updated(call.weight(), call.value("lora_A"), call.value("lora_B")));
    return call.scale(y / length.to(y.scalar_type()), "magnitude");
  }

  Tensor merged(const Linear&, const Tensor& weight, const std::vector<Tensor>& params) const override {
    const Tensor whole = updated(weight, params[0], params[1]);
    return dora_ ? whole * (params[2] / row_norms(whole)).t() : whole;
  }

 private:
  /// Finds a misspelt name while the experiment is checked; patterns need the model's layers.
  static void check_name(const std::string& target) {
    static const std::vector<std::string> names{"wq", "wk", "wv", "wo", "w1", "w2", "w3"};
    if (target.find_first_of(".*?[") == std::string::npos &&
        std::find(names.begin(), names.end(), target) == names.end())
      throw wmtp::BadOption(
          "targets",
          "found \"" + target + "\", wanted wq, wk, wv, wo, w1, w2, w3 or a pattern such as \"layers.*.wq\"");
  }
  /// The whole name of a layer, or its end after a dot.
  static bool matches(const std::string& target, const std::string& layer) {
    return fnmatch(target.c_str(), layer.c_str(), 0) == 0 || fnmatch(("*." + target).c_str(), layer.c_str(), 0) == 0;
  }
  double scale() const { return alpha_ / (rslora_ ? std::sqrt(double(rank_)) : double(rank_)); }
  /// W + s B A in fp32, because bf16 would round small updates to zero.
  Tensor updated(const Tensor& weight, const Tensor& a, const Tensor& b) const {
    return weight.to(at::kFloat) + at::mm(b.to(at::kFloat), a.to(at::kFloat)) * scale();
  }
  /// [1,out]; above 0, so that a zero row stays zero.
  static Tensor row_norms(const Tensor& weight) {
    return at::linalg_vector_norm(weight, 2, at::IntArrayRef{1}).clamp_min(1e-30).unsqueeze(0);
  }

  int64_t rank_ = 8;
  double alpha_ = 16;
  double dropout_ = 0;
  std::vector<std::string> targets_{"wq", "wk", "wv", "wo"};
  bool rslora_ = false;
  bool dora_ = false;
  double plus_ratio_ = 1;
};

}  // namespace

WMTP_ADAPTER(Lora, "lora", "1.0", "low-rank updates of frozen weights: LoRA, rsLoRA, DoRA, LoRA+")
