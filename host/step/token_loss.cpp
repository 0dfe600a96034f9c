#include "step/token_loss.hpp"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>

#include "base/round_up.hpp"
#include "memory/meta_device.hpp"
#include "step/previous_losses.hpp"
#include "step/step_views.hpp"

namespace wmtp {

using at::Tensor;

namespace {

/// train.head_weights at an optimizer step.
double head_weight(const TokenLossConfig& config, int64_t head, int64_t step) {
  const std::vector<HeadWeightsPoint>& points = config.head_weights_later;
  const auto of = [&](const std::vector<double>& weights) { return weights.empty() ? 1 : weights[size_t(head - 1)]; };
  const auto next = std::find_if(points.begin(), points.end(), [&](const auto& point) { return point.step > step; });
  if (next == points.begin()) return of(config.head_weights);
  const HeadWeightsPoint& before = *std::prev(next);
  if (next == points.end()) return of(before.weights);
  const double share = double(step - before.step) / double(next->step - before.step);
  return of(before.weights) + share * (of(next->weights) - of(before.weights));
}

}  // namespace

TokenLoss::TokenLoss(ShardedModel& model, ActivePipeline& pipeline, Channels& channels, const TokenLossConfig& config)
    : model_(model),
      pipeline_(pipeline),
      channels_(channels),
      config_(config),
      loss_(model.weight("output.weight"), config.chunk_tokens, model.vocabulary()) {}

void TokenLoss::weigh_before_the_heads(MicroBatchContext& step) {
  if (pipeline_.needs.when == When::before) step.set_weights(weigh(step, {When::before, 0, valid_of_all_heads(step)}));
}

void TokenLoss::weigh_all(MicroBatchContext& step, const std::function<Tensor(int64_t)>& hidden_of) {
  if (pipeline_.needs.when != When::all) return;
  std::vector<Scores> heads;
  for (int64_t k = 1; k <= model_.num_heads(); ++k) heads.push_back(scores(step, k, hidden_of(k), request()));
  Scores all = heads.front();
  step.set_head_1_likeliest(all.likeliest);
  for (size_t i = 0; i < all.parts().size(); ++i) {
    if (!all.parts()[i]->defined()) continue;
    std::vector<Tensor> per_head;
    for (const Scores& head : heads) per_head.push_back(*head.parts()[i]);
    *all.parts()[i] = at::stack(per_head, -1);
  }
  step.set_weights(weigh(step, {When::all, 0, valid_of_all_heads(step), all}));
}

Scores TokenLoss::scores(MicroBatchContext& step, int64_t head, const Tensor& hidden,
                         const ScoreRequest& request) const {
  const HeadRows rows = head_rows(step, head, hidden);
  return by_source(loss_.scores(rows.hidden, rows.targets, request, rows.most), rows);
}

void TokenLoss::keep_head_1(MicroBatchContext& step, const Tensor& hidden) const {
  if (pipeline_.auxiliary_loss) AuxiliaryTerm::keep_head_1(*pipeline_.auxiliary_loss, step, model_, hidden);
}

/// Head 1's, for the heads after it. [sequence group, collective]
void TokenLoss::keep_likeliest(const HeadRows& rows, const Scores& scores) const {
  if (rows.head == 1 && scores.likeliest.defined()) rows.step.set_head_1_likeliest(by_source(scores.likeliest, rows));
}

Tensor TokenLoss::gradient(MicroBatchContext& step, int64_t head, const Tensor& hidden) {
  const HeadRows rows = head_rows(step, head, hidden);
  std::optional<AuxiliaryTerm> auxiliary;
  LinearCrossEntropy::Addition addition;
  if (head == 1) keep_head_1(step, hidden);
  if (has_auxiliary_loss(head)) {
    auxiliary.emplace(*pipeline_.auxiliary_loss, rows, loss_, auxiliary_coefficient(rows), factor_);
    addition = [&](const Tensor& logits, int64_t begin, int64_t n) { return auxiliary->gradient(logits, begin, n); };
  }
  const When when = pipeline_.needs.when;
  const bool losses_first = when == When::head || (when == When::token && config_.normalize_by_weights);
  const Gradient gradient = losses_first          ? gradient_after_loss_pass(rows, addition)
                            : when == When::token ? gradient_in_one_pass(rows, addition)
                                                  : gradient_with_known_weights(rows, addition);
  add_to_totals(rows, gradient.losses, gradient.weighted);
  keep_losses(rows, gradient.losses);
  if (auxiliary) auxiliary->add_to_totals();
  return hidden_gradient(gradient.d_hidden, rows, hidden);
}

Tensor TokenLoss::unweighted_gradient(MicroBatchContext& step, int64_t head, const Tensor& hidden) const {
  const HeadRows rows = head_rows(step, head, hidden);
  const int64_t count = step.step_counts().targets[size_t(head - 1)];
  const double coefficient = factor_ / double(std::max<int64_t>(count, 1));
  const auto coefficients = [&](const Scores& chunk, int64_t) { return at::full_like(chunk.losses, coefficient); };
  const auto result =
      loss_.one_pass(rows.hidden, rows.targets, coefficients, /*sparse=*/false, /*request=*/{}, rows.most);
  return hidden_gradient(result.d_hidden, rows, hidden);
}

/// d_rows [N,D] at its places in the gradient of hidden [B,L,D].
Tensor TokenLoss::hidden_gradient(Tensor d_rows, const HeadRows& rows, const Tensor& hidden) {
  const int64_t B = hidden.size(0), D = hidden.size(2), count = rows.sources.count;
  Tensor d_hidden = at::empty_like(hidden);
  d_hidden.narrow(1, count, hidden.size(1) - count).zero_();
  if (rows.index.defined()) d_rows = at::zeros({B * count, D}, d_rows.options()).index_copy_(0, rows.index, d_rows);
  d_hidden.narrow(1, 0, count).copy_(d_rows.view({B, count, D}));
  return d_hidden;
}

void TokenLoss::add_loss(MicroBatchContext& step, int64_t head, const Tensor& hidden) {
  if (model_.weight("output.weight").trains()) {
    gradient(step, head, hidden);
    return;
  }
  if (head == 1) keep_head_1(step, hidden);
  const HeadRows rows = head_rows(step, head, hidden);
  const Scores scores = loss_.scores(rows.hidden, rows.targets, request(), rows.most);
  add_to_totals(rows, scores.losses, coefficients(rows, weigh_rows(rows, scores)) * scores.losses);
  keep_losses(rows, scores.losses);
}

/// For later steps, if the pipeline reads them. [sequence group, collective]
void TokenLoss::keep_losses(const HeadRows& rows, const Tensor& losses) const {
  if (PreviousLosses* kept = rows.step.kept_losses())
    kept->keep(rows.step.micro_batch(), rows.head, by_source(losses, rows));
}

void TokenLoss::add_to_totals(const HeadRows& rows, const Tensor& losses, const Tensor& weighted) {
  rows.step.totals().add("loss", weighted.sum(at::kDouble));
  rows.step.totals().add("ce/" + std::to_string(rows.head), losses.sum(at::kDouble));
}

WeighedLosses TokenLoss::weighed(MicroBatchContext& step, int64_t head, const Tensor& hidden) {
  const HeadRows rows = head_rows(step, head, hidden);
  const Scores scores = loss_.scores(rows.hidden, rows.targets, request(), rows.most);
  const Tensor weights = weigh_rows(rows, scores);
  return {by_source(scores.losses, rows), by_source(weights, rows)};
}

Tensor TokenLoss::weight_sum(MicroBatchContext& step, int64_t head, const Tensor& hidden) {
  const HeadRows rows = head_rows(step, head, hidden);
  const bool are_known = pipeline_.needs.when == When::before || pipeline_.needs.when == When::all;
  const Scores scores = are_known ? Scores() : loss_.scores(rows.hidden, rows.targets, request(), rows.most);
  return weigh_rows(rows, scores).sum(at::kDouble);
}

/// Weights [N] of a head's rows. `scores` are read only if the weighting has not been called yet.
Tensor TokenLoss::weigh_rows(const HeadRows& rows, const Scores& scores) {
  const When when = pipeline_.needs.when;
  const bool are_known = when == When::before || when == When::all;
  return weights_of(rows, are_known ? rows.step.weights() : weigh(rows.step, weigh_context_after(scores, rows)));
}

WeighContext TokenLoss::weigh_context_after(const Scores& scores, const HeadRows& rows) const {
  keep_likeliest(rows, scores);
  WeighContext weigh_context{pipeline_.needs.when, rows.head, {}, scores, 0, rows.index, rows.sources};
  if (weigh_context.when == When::head) {
    weigh_context.valid = rows.step.micro_batch().sources(rows.head);
    weigh_context.policy = by_source(scores, rows);
  } else {
    weigh_context.valid = at::ones_like(rows.targets, at::kBool);
  }
  return weigh_context;
}

TokenLoss::Gradient TokenLoss::gradient_after_loss_pass(const HeadRows& rows,
                                                        const LinearCrossEntropy::Addition& addition) {
  ScoredChunk kept;
  const Scores scores = loss_.scores(rows.hidden, rows.targets, request(), kept, rows.most);
  const Weights weights = weigh(rows.step, weigh_context_after(scores, rows));
  const Tensor scale = coefficients(rows, weights_of(rows, weights));
  const std::optional<int64_t> at_most = bound_on_selected(rows, weights);
  if (at_most) rows.step.totals().add("selection/missed", (scale.count_nonzero() - *at_most).clamp_min(0));
  return {scores.losses, scale * scores.losses,
          loss_.gradients(rows.hidden, rows.targets, scale * factor_, std::move(kept), at_most, addition)};
}

/// Where the weighting bounds the number of this rank's rows with a weight, so that the host need not wait for
/// a CUDA device to count them. Includes some rows more, because scores that differ by rounding are kept together
/// (wmtp::reaches); if even these do not suffice, the trainer runs the step again.
std::optional<int64_t> TokenLoss::bound_on_selected(const HeadRows& rows, const Weights& weights) const {
  if (weights.max_nonzero_share == 1 || has_auxiliary_loss(rows.head)) return {};
  const bool is_meta = rows.hidden.is_meta(), has_all_rows = channels_.data_ranks() == 1 && model_.split().is_whole();
  const int64_t count = is_meta && model_.vocabulary() ? rows.most : rows.targets.size(0),
                selected = int64_t(std::ceil(weights.max_nonzero_share * double(count)));
  if (is_meta && (on_cpu(rows.hidden) || !has_all_rows)) return selected;  // there are no values to count
  if (!on_cuda(rows.hidden) || !has_all_rows || rows.step.counts_selections()) return {};
  return std::min(count, round_up(selected + count / 256 + 1, int64_t{16}));
}

/// A rank without valid tokens also calls the weighting, with no tokens: every rank must report the same metrics.
TokenLoss::Gradient TokenLoss::gradient_in_one_pass(const HeadRows& rows,
                                                    const LinearCrossEntropy::Addition& addition) {
  std::vector<Tensor> parts;
  const auto chunk_coefficients = [&](const Scores& chunk, int64_t begin) {
    const Tensor valid = at::ones_like(chunk.losses, at::kBool);
    const Weights weights = weigh(rows.step, {When::token, rows.head, valid, chunk, begin, rows.index, rows.sources});
    parts.push_back(coefficients(
        rows, weights.meaning == Weights::Meaning::uniform ? at::ones_like(chunk.losses) : weights.values));
    return parts.back() * factor_;
  };
  const auto result =
      loss_.one_pass(rows.hidden, rows.targets, chunk_coefficients, /*sparse=*/false, request(), rows.most, addition);
  if (parts.empty()) chunk_coefficients(result.scores, 0);
  keep_likeliest(rows, result.scores);
  if (rows.hidden.is_meta()) parts = {at::empty_like(result.scores.losses)};  // not every chunk was run
  return {result.scores.losses, at::cat(parts) * result.scores.losses, result.d_hidden};
}

TokenLoss::Gradient TokenLoss::gradient_with_known_weights(const HeadRows& rows,
                                                           const LinearCrossEntropy::Addition& addition) {
  const Weights& weights = rows.step.weights();
  const Tensor scale = coefficients(rows, weights_of(rows, weights)), scaled = scale * factor_;
  const auto result = loss_.one_pass(
      rows.hidden, rows.targets,
      [&](const Scores& chunk, int64_t begin) { return scaled.narrow(0, begin, chunk.losses.size(0)); },
      /*sparse=*/weights.meaning != Weights::Meaning::uniform, {}, rows.most, addition, weights.max_nonzero_share);
  return {result.scores.losses, scale * result.scores.losses, result.d_hidden};
}

HeadRows TokenLoss::head_rows(MicroBatchContext& step, int64_t head, const Tensor& hidden) const {
  const MicroBatch& micro = step.micro_batch();
  const int64_t B = hidden.size(0), S = micro.batch.tokens.size(1), offset = micro.offset(head);
  const Positions sources = model_.split().local_positions_below(S - offset, S);
  const auto rows_from = [&](const Tensor& x, int64_t first) {  // a single column would stay a view with a stride
    return x.narrow(1, first, sources.count).flatten(0, 1).contiguous();
  };
  HeadRows rows{step,
                head,
                offset,
                sources,
                B * hidden.size(1),
                {},
                rows_from(hidden, 0),
                rows_from(micro.batch.tokens, std::min(sources.first + offset, S))};
  const int64_t count = micro.counts[size_t(head - 1)];
  if (count == B * (S - offset)) return rows;
  const Tensor valid = micro.sources(head).narrow(1, sources.first, sources.count).reshape({-1});
  const bool is_counted = !valid.is_cpu() && model_.split().is_whole();  // then the host need not wait for the number
  rows.index = (is_counted ? at::nonzero_static(valid, count) : valid.nonzero()).squeeze(1);
  rows.hidden = model_.vocabulary() ? rows.hidden.index_select(0, rows.index)
                                    : rows_with_padding(rows.hidden, rows.index);
  rows.targets = rows.targets.index_select(0, rows.index);
  if (const RankExchange* ranks = model_.vocabulary()) {
    const int64_t first = model_.split().local_positions(S).first - ranks->rank() * hidden.size(1);  // of these ranks
    const Tensor by_rank =
        micro.sources(head).narrow(1, first, ranks->ranks() * hidden.size(1)).unflatten(1, {ranks->ranks(), -1});
    rows.most = by_rank.sum(at::IntArrayRef{0, 2}).max().item<int64_t>();
  }
  return rows;
}

/// Values [N] per row as [B,S] by source, 0 elsewhere. [sequence group, collective]
Tensor TokenLoss::by_source(const Tensor& values, const HeadRows& rows) const {
  const Tensor& tokens = rows.step.batch().tokens;
  const int64_t B = tokens.size(0), count = rows.sources.count;
  Tensor places = values;
  if (rows.index.defined()) places = at::zeros({B * count}, values.options()).index_copy_(0, rows.index, values);
  Tensor here = at::zeros({B, model_.split().local_positions(tokens.size(1)).count}, values.options());
  here.narrow(1, 0, count).copy_(places.view({B, count}));
  return model_.split().whole(here);
}

Scores TokenLoss::by_source(Scores scores, const HeadRows& rows) const {
  for (Tensor* one : scores.parts())
    if (one->defined()) *one = by_source(*one, rows);
  return scores;
}

ScoreRequest TokenLoss::request() const {
  return {.entropies = pipeline_.reads(Signal::policy_entropy),
          .ranks = pipeline_.reads(Signal::policy_rank),
          .margins = pipeline_.reads(Signal::policy_margin),
          .top_k = pipeline_.reads(Signal::policy_top_mass) ? pipeline_.needs.top_k : 0,
          .likeliest = pipeline_.reads(Signal::policy_agreement)};
}

Tensor TokenLoss::valid_of_all_heads(const MicroBatchContext& step) const {
  std::vector<Tensor> heads;
  for (int64_t k = 1; k <= model_.num_heads(); ++k) heads.push_back(step.micro_batch().sources(k));
  return at::stack(heads, -1);
}

/// train.normalize: both divisors are of the whole step, over all ranks and micro-batches: "tokens" divides by the
/// head's valid tokens, "weights" by the sum of their weights; both also by the number of heads with targets in the
/// step over the head's weight, which is infinite for weight 0.
Tensor TokenLoss::coefficients(const HeadRows& rows, const Tensor& weights) {
  StepTotals& totals = rows.step.totals();
  totals.add("weight/sum", weights.sum(at::kDouble));
  totals.add("weight/square", weights.to(at::kDouble).square().sum());
  const size_t head = size_t(rows.head - 1);
  const double heads =
      double(rows.step.step_counts().heads_with_targets()) / head_weight(config_, rows.head, rows.step.number());
  if (!config_.normalize_by_weights) {
    const int64_t count = rows.step.step_counts().targets[head];
    return count == 0 ? at::zeros_like(weights) : weights / (double(count) * heads);
  }
  const Tensor& of_step = rows.step.weight_sums();
  const Tensor sum = of_step.defined() ? of_step.select(0, rows.head - 1)
                                       : channels_.sum(weights.sum(at::kDouble), "summing the weights");
  return at::where(sum > 0, weights / (sum * heads), 0.0).to(at::kFloat);
}

/// That of a cross entropy with weight 1 and train.normalize = "tokens".
double TokenLoss::auxiliary_coefficient(const HeadRows& rows) const {
  const StepCounts& counts = rows.step.step_counts();
  const int64_t count = counts.targets[size_t(rows.head - 1)];
  if (count == 0) return 0;
  return head_weight(config_, rows.head, rows.step.number()) / double(count * counts.heads_with_targets());
}

Weights TokenLoss::weigh(MicroBatchContext& step, WeighContext weigh_context) {
  WeightsCall call{pipeline_.name,
                   step.number(),
                   weigh_context.head,
                   step.batch().tokens.sizes().vec(),
                   weigh_context.valid.sizes().vec(),
                   pipeline_.needs.signed_weights,
                   weigh_context.valid.device()};
  if (weigh_context.when == When::token) call.by_target.clear();
  step.enter(std::move(weigh_context));
  const at::AutoGradMode grad(false);
  Weights weights = guarded(pipeline_.name, "weigh", [&] {
    Weights returned = wmtp::weigh(*pipeline_.weighting, step);
    step.leave();
    return returned;
  });
  check_weights_form(call, weights);
  if (weights.meaning == Weights::Meaning::uniform) return weights;
  weights.values = weights.values.detach();
  const Tensor faults = weight_faults(call, weights);
  step.totals().add("fault/not_finite", faults[0]);
  step.totals().add("fault/negative", faults[1]);
  checked_weights_.emplace_back(std::move(call), weights);
  return weights;
}

void TokenLoss::refuse_faulty_weights() const {
  for (const auto& [call, weights] : checked_weights_) {
    const Tensor faults = weight_faults(call, weights);
    if (faults.sum().item<float>() > 0) refuse_weights(call, weights);
  }
}

/// Weights [N] of a head's rows, converted according to their meaning.
Tensor TokenLoss::weights_of(const HeadRows& rows, const Weights& weights) {
  const Tensor& values = weights.values;
  if (weights.meaning == Weights::Meaning::uniform)
    return at::ones(rows.targets.sizes(), at::TensorOptions(at::kFloat).device(rows.targets.device()));
  if (values.dim() == 1) return values;  // already per row
  const bool by_target = weights.meaning == Weights::Meaning::by_target;
  const Tensor head_values = values.dim() == 3 ? values.select(2, rows.head - 1) : values;
  const int64_t first = std::min(rows.sources.first + (by_target ? rows.offset : 0), head_values.size(1));
  const Tensor places = head_values.narrow(1, first, rows.sources.count).reshape({-1});
  return rows.index.defined() ? places.index_select(0, rows.index) : places;
}

}  // namespace wmtp
