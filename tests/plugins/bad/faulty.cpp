// faulty: uniform weights, until `fault` happens at optimizer step `step` on rank `rank` (RANK; -1: on every rank).
#include <unistd.h>

#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <wmtp/plugin.hpp>

namespace {

struct ThrowsOnTheWay {
  ~ThrowsOnTheWay() noexcept(false) { throw std::runtime_error("thrown while unwinding"); }
};

class Faulty : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.text("fault", fault_, "what goes wrong",
           {"exception", "int",      "unwinding", "tensor",    "shape",       "dtype",  "undefined", "nan",
            "inf",       "negative", "zero",      "sleep",     "exit",        "device", "metric",    "tokens",
            "pointer",   "mask",     "state",     "own state", "short state", "mass",   "name",      "signal"});
    o.integer("step", step_, "at which optimizer step", 1);
    o.integer("rank", rank_, "on which rank; -1: on all", -1);
  }
  wmtp::Needs needs() const override {
    if (fault_ == "mass") return {.when = wmtp::When::token, .reads = {wmtp::Signal::policy_top_mass}};
    if (fault_ == "name") return {.references = {{"Amateur", wmtp::Signal::reference_loss}}};
    if (fault_ == "signal") return {.references = {{"amateur", wmtp::Signal::policy_loss}}};
    return {.when = wmtp::When::before};
  }

  wmtp::Weights weigh(wmtp::BatchStep& step) override {
    const char* rank = std::getenv("RANK");
    const bool mine = rank_ < 0 || std::atoi(rank == nullptr ? "0" : rank) == rank_;
    if (fault_ == "state") step.state("seen", at::zeros({3})).add_(mine ? 2 : 1);
    if (fault_ == "own state" && mine) step.state("mine", at::zeros({}));
    if (fault_ == "short state") step.state("few", at::zeros({3}, at::kShort));
    if (mine && fault_ == "metric") step.metric("../../x\033[2J", at::ones({}), at::ones({}));
    return wmtp::Weights::by_source(step.number() == step_ && mine ? go_wrong(step) : ones(step.valid()));
  }

 private:
  static wmtp::Tensor ones(const wmtp::Tensor& valid) { return at::ones_like(valid, at::kFloat); }

  static wmtp::Tensor with_one(const wmtp::Tensor& valid, double value) {
    wmtp::Tensor values = ones(valid);
    values.select(0, 0).select(0, 1).fill_(value);
    return values;
  }

  wmtp::Tensor go_wrong(wmtp::BatchStep& step) const {
    const wmtp::Tensor valid = step.valid();
    if (fault_ == "tokens") step.batch().tokens.select(1, 0).fill_(1);
    if (fault_ == "pointer") *step.batch().tokens.mutable_data_ptr<int64_t>() ^= 1;
    if (fault_ == "mask") valid.logical_not_();
    if (fault_ == "tokens" || fault_ == "pointer" || fault_ == "mask" || fault_.ends_with("state")) return ones(valid);
    if (fault_ == "exception") throw std::runtime_error("the weighting has given up");
    if (fault_ == "int") throw 42;
    if (fault_ == "unwinding") {
      const ThrowsOnTheWay bomb;
      throw std::runtime_error("the weighting has given up");
    }
    if (fault_ == "tensor") return ones(valid).reshape({-7});
    if (fault_ == "shape") return ones(valid).slice(0, 1).contiguous();
    if (fault_ == "dtype") return ones(valid).to(at::kDouble);
    if (fault_ == "undefined") return {};
    if (fault_ == "sleep") sleep(3600);
    if (fault_ == "exit") std::exit(0);
    if (fault_ == "device") return ones(valid).cpu();
    if (fault_ == "zero") return at::zeros_like(valid, at::kFloat);
    if (fault_ == "nan") return with_one(valid, std::numeric_limits<double>::quiet_NaN());
    if (fault_ == "inf") return with_one(valid, std::numeric_limits<double>::infinity());
    return with_one(valid, -0.5);
  }

  std::string fault_ = "exception";
  int64_t step_ = 1;
  int64_t rank_ = -1;
};

}  // namespace

WMTP_PIPELINE(Faulty, "faulty", "1.0", "fails in the way that its options select")
