// verifiable: weights an answer's tokens by their advantage, the change in the probability that the answer is right
// (advantage-weighted regression: Peng et al. 2019, arXiv 1910.00177; GAE: Schulman et al. 2016, arXiv 1506.02438).
//
//   V_t is the value after token t: of the frozen model of [value] or, with joint, of a value head on the policy that
//   trains with it. Before the first token of an answer V is 0.5, since no critic here is trained on prompts.
//   critic = score   the frozen model was trained on pairs: V is determined up to a constant per problem, so only
//                differences are meaningful. Before the first token V is the critic's at the prompt's last token
//   mode = gae   d_t = gamma * V_t - V_{t-1}, A_t = d_t + gamma * lambda * A_{t+1}, over the answer; the outcome is not
//                used, so A_t is the change that each token makes to the critic's value ("marginal values")
//   mode = td    A_t = r_t + gamma * V_t - V_{t-1}, the standard one-step TD error: r is 1 at the last token of a right
//                answer, else 0, and V after the last token is 0, so its error is r - V_{T-1}. If it is unknown whether
//                an answer is right, its tokens have weight 1
//   w_t = clamp(exp((A_t - mean) / deviation / beta), min, max); prompts 1, padding 0; for the token AT t, in each head
//
// Mean and deviation are running statistics over the answer tokens of all ranks, updated by each micro-batch, including
// the current one: a plain average for the first ten, then an exponential moving average with weight 0.1. mean_one
// divides by the mean over the micro-batch of all ranks or over the answer, after min and max.
#include "../shared/values.hpp"

namespace {

using wmtp::Tensor;

constexpr double ema_share = 0.1;  // its inverse, ten, is the number of warm-up micro-batches
constexpr double least_deviation = 1e-6;

class Verifiable : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    o.text("mode", mode_, "advantage: gae over the values only, or td, the one-step error with the outcome at the end",
           {"gae", "td"});
    o.number("gamma", regression_.gamma, "discount per token", 0, 1);
    o.number("lambda", regression_.lambda, "lambda of the advantage: 0 = one token, 1 = to the end", 0, 1);
    o.scheduled("beta", beta_, "temperature; smaller values make the weights more uneven", 1e-6, 1e6);
    o.number("min", min_, "smallest weight", 0, 1e6);
    o.number("max", max_, "largest weight", 0, 1e6);
    o.flag("whiten", whiten_, "subtract the running mean of the advantages and divide by their running deviation");
    o.text("mean_one", mean_one_, "scale weights to mean 1 over the batch or each sequence",
           {"none", "batch", "sequence"});
    o.text("critic", critic_, "what the model of [value] was trained on: value = the outcome, score = pairs",
           {"value", "score"});
    o.text("squash", squash_, "conversion of values that are logits to probabilities", {"none", "sigmoid"});
    o.flag("joint", joint_, "use a value head that trains with the policy instead of the model of [value]");
    o.text("head", head_, "joint: linear: d -> 1; mlp: d -> d/4 -> d/8 -> 1", {"linear", "mlp"});
    o.text("value_loss", value_loss_, "joint: returns that the value head learns", {"lambda_return", "monte_carlo"});
    o.number("value_coefficient", coefficient_, "joint: coefficient of the value loss relative to the token loss", 0,
             1e6);
    refuse_unused(o);
    regression_.error_options(o);
  }

  wmtp::Needs needs() const override {
    if (min_ > max_) throw wmtp::BadOption("min", "min is larger than max");
    if (of_scores() && mode_ == "td")
      throw wmtp::BadOption("mode", "scores are not comparable with the outcome; use \"gae\"");
    if (of_scores() && squash_ == "sigmoid")
      throw wmtp::BadOption("squash", "a score is not the logit of a probability");
    wmtp::Needs needs{.when = wmtp::When::before, .values = {value_read()}, .scores = of_scores()};
    if (joint_) needs.heads = {{"value", head_}};
    return needs;
  }

  Tensor value_loss(wmtp::ValueStep& step) override {
    if (!joint_) return {};
    const Tensor loss = regression_.loss(step, squashed(step.leaf(value_read())), value_loss_ == "monte_carlo");
    return coefficient_ * loss;
  }

  wmtp::Weights weigh(wmtp::BatchStep& step) override {
    const wmtp::Batch& batch = step.batch();
    const Tensor answers = values::answers_of(batch), values = squashed(step.value(value_read()));
    const Tensor counted = mode_ == "td" ? answers * values::known_rows(batch) : answers;
    if (!joint_) step.metric("value/mean", (values * answers).sum(), answers.sum());

    const Tensor scaled = in_deviations(step, advantages(batch, values, answers), counted);
    const Tensor raw = (scaled / beta_.at(step.number())).exp(), clipped = raw.clamp(min_, max_);
    const Tensor weights = at::where(counted > 0, clipped, answers);
    step.metric("weights/before_mean_one", weights.sum(), answers.sum());
    step.metric("weights/clipped", ((raw != clipped) * counted).sum(), counted.sum());
    return wmtp::Weights::by_target(at::where(answers > 0, with_mean_one(step, weights, answers), batch.kind.eq(1)));
  }

 private:
  wmtp::ValueSignal value_read() const {
    return joint_ ? wmtp::ValueSignal::of_policy("value") : wmtp::ValueSignal::frozen();
  }
  Tensor squashed(const Tensor& values) const { return squash_ == "sigmoid" ? values.sigmoid() : values; }

  bool of_scores() const { return critic_ == "score"; }

  void refuse_unused(const wmtp::Options& o) const {
    if (joint_) o.refuse("critic", "joint = true uses no [value] model");
    if (of_scores()) o.refuse("gamma", "with discounted scores, their arbitrary offset would not cancel");
    if (!joint_)
      for (const char* name : {"head", "value_loss", "value_coefficient", "error", "huber_delta"})
        o.refuse(name, "it has no effect with joint = false");
    if (mode_ == "td" && !(joint_ && value_loss_ == "lambda_return"))
      o.refuse("lambda", "it has no effect: mode = \"td\" looks one token ahead");
  }

  Tensor advantages(const wmtp::Batch& batch, const Tensor& values, const Tensor& answers) const {
    const Tensor first = of_scores() ? before_answer(values) : at::full({}, 0.5, values.options());
    const Tensor before = at::where(values::previous(answers) > 0, values::previous(values), first);
    const double gamma = regression_.gamma;
    if (mode_ == "gae")
      return values::discounted_sums((gamma * values - before) * answers, gamma * regression_.lambda) * answers;
    const Tensor ends = values::ends_of(answers);
    return (ends * values::right_rows(batch) + gamma * values * (1 - ends) - before) * answers;
  }

  /// The value at the previous token; for the first position its own value, which gives a difference of zero.
  static Tensor before_answer(const Tensor& values) {
    return at::cat({values.narrow(1, 0, 1), values.narrow(1, 0, values.size(1) - 1)}, 1);
  }

  /// Reports td/mean and td/std of the micro-batch (the latter the same on every rank), and with whiten the running
  /// ones.
  Tensor in_deviations(wmtp::BatchStep& step, const Tensor& advantages, const Tensor& counted) const {
    const Tensor here = values::moments(advantages, counted), all = step.collectives().sum(here);
    const Tensor any = all[0] > 0, mean = values::mean_of(all), deviation = values::variance_of(all).sqrt();
    step.metric("td/mean", here[1], here[0]);
    step.metric("td/std", deviation, any);
    if (!whiten_) return advantages;
    Tensor& running = step.state("advantages", at::zeros({3}, all.options()));  // mean, deviation, updates
    const Tensor updates = running[2] + any, share = updates.clamp_min(1).reciprocal().clamp_min(ema_share);
    running = at::where(
        any,
        at::stack({running[0] + share * (mean - running[0]), running[1] + share * (deviation - running[1]), updates}),
        running);
    step.metric("td/ema_mean", running[0], any);
    step.metric("td/ema_std", running[1], any);
    return (advantages - running[0]) / running[1].clamp_min(least_deviation);
  }

  Tensor with_mean_one(wmtp::BatchStep& step, const Tensor& weights, const Tensor& answers) const {
    if (mean_one_ == "none") return weights;
    if (mean_one_ == "sequence")
      return weights * answers.sum(1, true) / weights.sum(1, true).clamp_min(least_deviation);
    const Tensor all = step.collectives().sum(at::stack({weights.sum(at::kDouble), answers.sum(at::kDouble)}));
    return weights * (all[1] / all[0].clamp_min(least_deviation));
  }

  std::string mode_ = "gae", mean_one_ = "none", critic_ = "value", squash_ = "none", head_ = "linear",
              value_loss_ = "lambda_return";
  wmtp::Scheduled beta_ = 1;
  double min_ = 0.1, max_ = 3, coefficient_ = 1;
  bool whiten_ = true, joint_ = false;
  values::Regression regression_;
};

}  // namespace

WMTP_PIPELINE(Verifiable, "verifiable", "1.1", "weights an answer's tokens by their advantage under a value model")
