// Functions on values of answers, shared by critic and verifiable so that both use the same definitions.
//
// Convention: V_t is defined AFTER token t. Only answer tokens (kind 2) count; the answer of a row is one contiguous
// run of tokens, t = first … T. All tensors are [B,S]; `answers` marks a row's answer (1.0 and 0.0).
#pragma once

#include <string>
#include <wmtp/plugin.hpp>

namespace values {

using wmtp::Tensor;

/// x_{t+1} and x_{t-1}; 0 beyond the ends.
inline Tensor next(const Tensor& x) { return at::constant_pad_nd(x.narrow(1, 1, x.size(1) - 1), {0, 1}); }
inline Tensor previous(const Tensor& x) { return at::constant_pad_nd(x.narrow(1, 0, x.size(1) - 1), {1, 0}); }

inline Tensor answers_of(const wmtp::Batch& batch) { return batch.kind.eq(2).to(at::kFloat); }
/// The last token of each answer.
inline Tensor ends_of(const Tensor& answers) { return answers * (1 - next(answers)); }
/// [B,1]: 1 if the row's answer is right, 0 if it is wrong or unknown; and whether that is known.
inline Tensor right_rows(const wmtp::Batch& batch) { return batch.correct.eq(1).to(at::kFloat).unsqueeze(1); }
inline Tensor known_rows(const wmtp::Batch& batch) { return batch.correct.ge(0).to(at::kFloat).unsqueeze(1); }

/// y_t = x_t + c * y_{t+1}, 0 <= c <= 1, by doubling: after pass k, y_t contains the terms t … t + 2^k - 1. That takes
/// log2(S) operations on whole tensors instead of S. All powers of c are at most 1, so nothing overflows; a cumulative
/// sum divided by c^t would overflow for long rows.
inline Tensor discounted_sums(Tensor x, double c) {
  const int64_t S = x.size(1);
  for (int64_t reach = 1; reach < S && c > 0; reach *= 2, c *= c) {
    x = x + c * at::constant_pad_nd(x.narrow(1, reach, S - reach), {0, reach});
  }
  return x;
}

/// [3] fp64: the count, sum and sum of squares of the counted elements; mean and variance from these (0 for no
/// element).
inline Tensor moments(const Tensor& x, const Tensor& counted) {
  const Tensor x64 = x.to(at::kDouble) * counted;
  return at::stack({counted.sum(at::kDouble), x64.sum(), x64.square().sum()});
}
inline Tensor mean_of(const Tensor& moments) { return moments[1] / moments[0].clamp_min(1); }
inline Tensor variance_of(const Tensor& moments) {
  return (moments[2] / moments[0].clamp_min(1) - mean_of(moments).square()).clamp_min(0);
}

/// value/mean over answers, and three indications that a value depends on the position in an answer instead of its
/// content. Each is a mean over the answers of at least three tokens, the last two only over those whose value varies:
///   value/token_variance        variance of V within the answer
///   value/spikiness             max |d| / mean |d| with d_t = V_t - V_{t-1}: above 3 if single tokens dominate
///   value/position_correlation  Pearson correlation of V_t with t: above 0.7 is suspicious
inline void report_values(wmtp::Step& step, const Tensor& values, const Tensor& answers) {
  step.metric("value/mean", (values * answers).sum(), answers.sum());
  const auto within = [&](const Tensor& x) {
    return (x - (x * answers).sum(1, true) / answers.sum(1, true)) * answers;
  };
  const Tensor v = values.to(at::kDouble), length = answers.sum(1);
  const Tensor position = at::arange(v.size(1), v.options()).expand_as(v);
  const Tensor dv = within(v), dp = within(position), variance = dv.square().sum(1) / length;
  const Tensor pairs = answers * previous(answers), moves = (v - previous(v)).abs() * pairs;
  const Tensor spikiness = std::get<0>(moves.max(1)) * pairs.sum(1) / moves.sum(1);
  const Tensor correlation = (dv * dp).sum(1) / (dv.square().sum(1) * dp.square().sum(1)).sqrt();
  const Tensor long_enough = length >= 3, counts = long_enough.logical_and(variance > 1e-12);
  step.metric("value/token_variance", at::where(long_enough, variance, 0.0).sum(), long_enough.sum());
  step.metric("value/spikiness", at::where(counts, spikiness, 0.0).sum(), counts.sum());
  step.metric("value/position_correlation", at::where(counts, correlation, 0.0).sum(), counts.sum());
}

/// A loss of values against returns. Reward: 1 at the last token of a right answer, 0 everywhere else.
///   lambda_return  G_T = reward, G_t = gamma * ((1 - lambda) * V_{t+1} + lambda * G_{t+1})  (Peng et al. 2019, arXiv
///                  1910.00177), V inside G detached
///   monte_carlo    G_t = gamma^(T - t) * reward: the same with lambda = 1
///   error          mse = (V - G)^2; huber = (V - G)^2 / 2 up to |V - G| = delta, then delta * (|V - G| - delta / 2)
/// Summed over the answers whose correctness is known, divided by the step's number of answer tokens.
struct Regression {
  double gamma = 1, lambda = 0.95, huber_delta = 0.5;
  std::string error = "mse";

  void error_options(wmtp::Options& o) {
    o.text("error", error, "measure of the distance between a value and its return", {"mse", "huber"});
    o.number("huber_delta", huber_delta, "distance at which huber changes from squared to linear", 1e-6, 1e6);
    if (error != "huber") o.refuse("huber_delta", "it has no effect with error = \"" + error + "\"");
  }

  Tensor returns(const Tensor& values, const Tensor& answers, const Tensor& right, bool monte_carlo) const {
    const double l = monte_carlo ? 1 : lambda;
    const Tensor bootstrap = gamma * (1 - l) * next(values * answers);
    return discounted_sums((ends_of(answers) * right + bootstrap) * answers, gamma * l) * answers;
  }

  /// Also reports value/loss, value/mse, value/explained_variance and the metrics of report_values.
  Tensor loss(wmtp::ValueStep& step, const Tensor& values, bool monte_carlo) const {
    const Tensor answers = answers_of(step.batch()), counted = answers * known_rows(step.batch());
    const Tensor now = values.detach(), target = returns(now, answers, right_rows(step.batch()), monte_carlo);
    const Tensor errors =
        error == "mse" ? (values - target).square() : at::huber_loss(values, target, at::Reduction::None, huber_delta);
    const Tensor sum = (errors * counted).sum();
    step.metric("value/loss", sum.detach(), counted.sum());
    step.metric("value/mse", ((now - target).square() * counted).sum(), counted.sum());
    report_explained_variance(step, target, target - now, counted);
    report_values(step, now, answers);
    return sum / step.answer_tokens().clamp_min(1);
  }

 private:
  /// 1 - Var(G - V) / (Var(G) + 1e-5), both over the micro-batch of all ranks. A ratio of sums over ranks is not a sum
  /// over ranks, so the ranks exchange the moments, and each reports the same ratio weighted by the micro-batch's
  /// tokens.
  static void report_explained_variance(wmtp::ValueStep& step, const Tensor& target, const Tensor& residual,
                                        const Tensor& counted) {
    const Tensor all = step.collectives().sum(at::stack({moments(target, counted), moments(residual, counted)}));
    const Tensor explained = 1 - variance_of(all[1]) / (variance_of(all[0]) + 1e-5);
    step.metric("value/explained_variance", explained * all[0][0], all[0][0]);
  }
};

}  // namespace values
