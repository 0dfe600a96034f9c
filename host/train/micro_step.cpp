#include "train/micro_step.hpp"

#include <torch/csrc/autograd/autograd.h>

#include "memory/allocator.hpp"
#include "model/ops.hpp"

namespace wmtp {
namespace {

using at::Tensor;

Tensor differentiate(const Tensor& output, const Tensor& input, const Tensor& d_output) {
  return torch::autograd::grad({output}, {input}, {d_output})[0];
}

Tensor as_leaf(const Tensor& x) { return x.detach().requires_grad_(true); }

/// Whether a block has a parameter of its own, or of the adapter, that trains.
bool block_trains(const ShardedModel& model, const std::string& block) {
  for (const ParameterGroup* group : model.trained_groups())
    for (const Placed& placed : group->parameters())
      if (placed.spec.name.starts_with(block + ".")) return true;
  return false;
}

}  // namespace

MicroStep::MicroStep(ShardedModel& model, PipelineInUse& pipeline, HostStep& step, Channels& channels,
                     const MicroStepConfig& config)
    : model_(model),
      pipeline_(pipeline),
      step_(step),
      channels_(channels),
      config_(config),
      loss_(model.weight("output.weight"), config.chunk_tokens),
      embedding_trains_(model.weight("tok_embeddings.weight").trains()) {
  lowest_block_ = model_.num_trunk_blocks();
  for (int64_t i = model_.num_trunk_blocks() - 1; i >= 0; --i)
    if (block_trains(model_, trunk_block_name(i))) lowest_block_ = i;
  if (embedding_trains_) lowest_block_ = 0;
}

ShardUnit* MicroStep::unit_after_trunk_block(int64_t block) const {
  return &model_.unit(block + 1 < model_.num_trunk_blocks() ? trunk_block_name(block + 1) : "norm");
}

void MicroStep::run(const MicroBatch& micro, int64_t number, const std::vector<int64_t>& counts, bool last,
                    StepTotals& totals) {
  const MemoryScope scope(MemoryCategory::activations);
  micro_ = &micro;
  counts_ = counts;
  const Pass pass{true, config_.seed, number, micro.batch.sequence};
  std::vector<Kept> frame;
  const Tensor trunk = forward_trunk(pass, &frame);
  Tensor d_trunk = at::zeros_like(trunk);
  if (pipeline_.objective)
    run_objective(trunk, d_trunk, last, totals);
  else
    run_heads(trunk, d_trunk, pass, last, totals);
  backward_trunk(frame, std::move(d_trunk), pass, last);
  for (const auto& unit : model_.units())
    if (unit->name() == "adapter") {
      reduce(*unit, last);
      unit->release();
    }
  finish_reduces();
}

Tensor MicroStep::forward_trunk(const Pass& pass, std::vector<Kept>* frame) {
  for (const auto& unit : model_.units())
    if (unit->name() == "adapter") unit->ready();  // used by every block: gathered once for all of them
  Tensor h;
  {
    const Gathered embedding(model_.unit("tok_embeddings"), unit_after_trunk_block(-1));
    h = model_.weight("tok_embeddings.weight").weight().index_select(0, micro_->batch.tokens.flatten());
    h = h.view({micro_->batch.tokens.size(0), micro_->batch.tokens.size(1), -1});
  }
  for (int64_t i = 0; i < model_.num_trunk_blocks(); ++i) {
    const Gathered block(model_.unit(trunk_block_name(i)), unit_after_trunk_block(i));
    const bool keeps_graph = frame && !config_.activation_checkpointing && i >= lowest_block_;
    const Tensor input = keeps_graph ? as_leaf(h) : h;
    const at::AutoGradMode grad(keeps_graph);
    const Tensor output = model_.trunk_block(i).forward(input, model_.rotary(), pass);
    if (frame) frame->push_back({input, keeps_graph ? output : Tensor()});
    h = output.detach();
  }
  return h;
}

void MicroStep::backward_trunk(std::vector<Kept>& frame, Tensor d_output, const Pass& pass, bool last) {
  for (int64_t i = model_.num_trunk_blocks() - 1; i >= lowest_block_; --i) {
    ShardUnit& unit = model_.unit(trunk_block_name(i));
    {
      const Gathered block(unit, i > lowest_block_ ? &model_.unit(trunk_block_name(i - 1)) : nullptr);
      Kept kept = std::move(frame.back());
      frame.pop_back();
      if (!kept.output.defined()) {
        const at::AutoGradMode grad(true);
        kept.input = as_leaf(kept.input);
        kept.output = model_.trunk_block(i).forward(kept.input, model_.rotary(), pass);
      }
      d_output = differentiate(kept.output, kept.input, d_output);
    }
    reduce(unit, last);
  }
  if (!embedding_trains_) return;
  const WeightHandle embedding = model_.weight("tok_embeddings.weight");
  embedding.store->add_rows(embedding.index, micro_->batch.tokens.flatten(), d_output.flatten(0, 1));
  reduce(model_.unit("tok_embeddings"), last);
}

void MicroStep::run_heads(const Tensor& trunk, Tensor& d_trunk, const Pass& pass, bool last, StepTotals& totals) {
  const When when = pipeline_.needs.when;
  Weights known;
  if (when == When::before) known = weigh({When::before, 0, valid_of_all_heads(), {}}, totals);

  const Gathered norm(model_.unit("norm"), &model_.unit("output"));
  const Gathered output(model_.unit("output"), &model_.unit(head_block_name(model_.config(), 1)));
  if (when == When::all) known = weigh({When::all, 0, valid_of_all_heads(), all_losses(trunk, pass)}, totals);

  for (int64_t k = 1; k <= model_.num_heads(); ++k) {
    ShardUnit& unit = model_.unit(head_block_name(model_.config(), k));
    {
      const Gathered block(unit,
                           k < model_.num_heads() ? &model_.unit(head_block_name(model_.config(), k + 1)) : nullptr);
      const Tensor input = as_leaf(trunk);
      Tensor hidden;
      {
        const at::AutoGradMode grad(true);
        hidden = rms_norm(model_.head_block(k).forward(input, model_.rotary(), pass), model_.weight("norm.weight"),
                          model_.config().norm_eps);
      }
      const HeadRows rows = head_rows(k, hidden.detach());
      const Tensor d_rows = head_gradient(rows, known, totals);
      Tensor d_hidden = at::zeros_like(hidden);
      d_hidden.narrow(1, 0, hidden.size(1) - k).copy_(d_rows.view({hidden.size(0), -1, hidden.size(2)}));
      d_trunk.add_(differentiate(hidden, input, d_hidden));
    }
    reduce(unit, last);
  }
  reduce(model_.unit("norm"), last);
  reduce(model_.unit("output"), last);
}

Tensor MicroStep::valid_of_all_heads() const {
  std::vector<Tensor> heads;
  for (int64_t k = 1; k <= model_.num_heads(); ++k) heads.push_back(valid_sources(micro_->targets, k));
  return at::stack(heads, -1);
}

MicroStep::HeadRows MicroStep::head_rows(int64_t head, const Tensor& hidden) const {
  const int64_t S = hidden.size(1);
  return {head, hidden.narrow(1, 0, S - head).reshape({-1, hidden.size(2)}),
          micro_->batch.tokens.narrow(1, head, S - head).reshape({-1}),
          valid_sources(micro_->targets, head).narrow(1, 0, S - head).reshape({-1}).to(at::kFloat)};
}

Tensor MicroStep::all_losses(const Tensor& trunk, const Pass& pass) {
  std::vector<Tensor> heads;
  for (int64_t k = 1; k <= model_.num_heads(); ++k) {
    const Gathered block(model_.unit(head_block_name(model_.config(), k)));
    const Tensor hidden = rms_norm(model_.head_block(k).forward(trunk, model_.rotary(), pass),
                                   model_.weight("norm.weight"), model_.config().norm_eps);
    const HeadRows rows = head_rows(k, hidden);
    Tensor losses = at::zeros(micro_->batch.tokens.sizes(), rows.valid.options());
    losses.narrow(1, 0, losses.size(1) - k)
        .copy_((loss_.scores(rows.hidden, rows.targets).losses * rows.valid).view({losses.size(0), -1}));
    heads.push_back(losses);
  }
  return at::stack(heads, -1);
}

Tensor MicroStep::head_gradient(const HeadRows& rows, const Weights& known, StepTotals& totals) {
  const When when = pipeline_.needs.when;
  const int64_t B = micro_->batch.tokens.size(0), S = micro_->batch.tokens.size(1), k = rows.head;
  Tensor losses, gradient, weighted;

  if (when == When::head || (when == When::token && config_.normalize_by_weights)) {
    ScoredChunk kept;
    losses = loss_.scores(rows.hidden, rows.targets, {}, kept).losses;
    const Tensor counted = losses * rows.valid;
    Tensor weights;
    if (when == When::token) {
      weights = rows_of(weigh({When::token, k, rows.valid > 0, counted}, totals), k);
    } else {
      Tensor by_source = at::zeros({B, S}, counted.options());
      by_source.narrow(1, 0, S - k).copy_(counted.view({B, -1}));
      weights = rows_of(weigh({When::head, k, valid_sources(micro_->targets, k), by_source}, totals), k);
    }
    const Tensor scale = coefficients(rows, weights);
    count_weights(weights, rows.valid, totals);
    weighted = scale * counted;
    gradient = loss_.gradients(rows.hidden, rows.targets, scale, std::move(kept));
  } else if (when == When::token) {
    std::vector<Tensor> parts;
    const auto result = loss_.one_pass(
        rows.hidden, rows.targets,
        [&](const Scores& chunk, int64_t begin) {
          const Tensor valid = rows.valid.narrow(0, begin, chunk.losses.size(0));
          const Tensor weights = rows_of(weigh({When::token, k, valid > 0, chunk.losses * valid, begin}, totals), k);
          count_weights(weights, valid, totals);
          HeadRows part{k, {}, {}, valid};
          parts.push_back(coefficients(part, weights));
          return parts.back();
        },
        /*sparse=*/false);
    losses = result.scores.losses;
    gradient = result.d_hidden;
    weighted = at::cat(parts) * losses;
  } else {
    const Tensor weights = rows_of(known, k);
    const Tensor scale = coefficients(rows, weights);
    count_weights(weights, rows.valid, totals);
    const auto result = loss_.one_pass(
        rows.hidden, rows.targets,
        [&](const Scores& chunk, int64_t begin) { return scale.narrow(0, begin, chunk.losses.size(0)); },
        known.meaning != Weights::Meaning::uniform);
    losses = result.scores.losses;
    gradient = result.d_hidden;
    weighted = scale * losses;
  }
  totals.add("loss", weighted.sum(at::kDouble));
  totals.add("ce/" + std::to_string(k), (losses * rows.valid).sum(at::kDouble));
  return gradient;
}

/// contract: "tokens" divides by the head's valid tokens in the whole step, "weights" by the weights' sum over all
/// ranks in this micro-batch, then by the number of micro-batches; both by the number of heads.
Tensor MicroStep::coefficients(const HeadRows& rows, const Tensor& weights) {
  const Tensor counted = weights * rows.valid;
  if (!config_.normalize_by_weights) {
    const int64_t count = counts_[size_t(rows.head - 1)];
    return count == 0 ? at::zeros_like(counted) : counted / double(count * model_.num_heads());
  }
  const Tensor sum = channels_.sum(counted.sum(at::kDouble).cpu(), "adding up the weights").to(counted.device());
  const double parts = double(config_.gradient_accumulation * model_.num_heads());
  return at::where(sum > 0, counted / (sum * parts), 0.0).to(at::kFloat);
}

Weights MicroStep::weigh(Moment moment, StepTotals& totals) {
  WeightsCall call{pipeline_.name,
                   step_.number(),
                   moment.head,
                   micro_->batch.tokens.sizes().vec(),
                   moment.valid.sizes().vec(),
                   pipeline_.needs.signed_weights};
  if (moment.when == When::token) call.by_target.clear();
  step_.enter(std::move(moment));
  const at::AutoGradMode grad(false);
  Weights weights = guarded(pipeline_.name, "weigh", [&] { return pipeline_.weighting->weigh(step_); });
  check_weights_form(call, weights);
  if (weights.meaning == Weights::Meaning::uniform) return weights;
  weights.values = weights.values.detach();
  const Tensor faults = weight_faults(call, weights);
  totals.add("fault/not_finite", faults[0]);
  totals.add("fault/negative", faults[1]);
  judged_.emplace_back(std::move(call), weights);
  return weights;
}

void MicroStep::refuse_faulty_weights() const {
  for (const auto& [call, weights] : judged_) {
    const Tensor faults = weight_faults(call, weights);
    if (faults.sum().item<float>() > 0) refuse_weights(call, weights);
  }
}

/// Weights as rows [N] of a head, from whatever they mean.
Tensor MicroStep::rows_of(const Weights& weights, int64_t head) const {
  const int64_t B = micro_->batch.tokens.size(0), S = micro_->batch.tokens.size(1);
  if (weights.meaning == Weights::Meaning::uniform)
    return at::ones({B * (S - head)}, at::TensorOptions(at::kFloat).device(micro_->batch.tokens.device()));
  const Tensor& values = weights.values;
  if (weights.meaning == Weights::Meaning::by_target) return values.narrow(1, head, S - head).reshape({-1});
  if (values.dim() == 1) return values;
  const Tensor of_head = values.dim() == 3 ? values.select(2, head - 1) : values;
  return of_head.narrow(1, 0, S - head).reshape({-1});
}

void MicroStep::count_weights(const Tensor& weights, const Tensor& valid, StepTotals& totals) const {
  const Tensor counted = weights * valid;
  totals.add("weight/sum", counted.sum(at::kDouble));
  totals.add("weight/square", counted.square().sum(at::kDouble));
}

void MicroStep::run_objective(const Tensor& trunk, Tensor& d_trunk, bool last, StepTotals& totals) {
  const Gathered norm(model_.unit("norm"), &model_.unit("value_heads"));
  const Gathered heads(model_.unit("value_heads"));
  const Tensor input = as_leaf(trunk);
  Moment moment{When::all, 0, valid_of_all_heads(), {}};
  std::vector<Tensor> outputs, leaves;
  const at::AutoGradMode grad(true);
  const Tensor normed = rms_norm(input, model_.weight("norm.weight"), model_.config().norm_eps).to(at::kFloat);
  for (const ValueHead& head : pipeline_.needs.heads) {
    const std::string prefix = "value_heads." + head.name;
    outputs.push_back(
        add_bias(linear(normed, model_.weight(prefix + ".weight")), model_.weight(prefix + ".bias")).squeeze(-1));
    leaves.push_back(as_leaf(outputs.back()));
    moment.leaves["value:" + head.name] = leaves.back();
  }
  step_.enter(std::move(moment));
  const Tensor loss = guarded(pipeline_.name, "loss", [&] { return pipeline_.objective->loss(step_); });
  if (!loss.defined() || loss.numel() != 1 || !loss.requires_grad())
    throw Error(ExitStatus::plugin,
                "pipeline '" + pipeline_.name + "': loss() must return a scalar that depends on one of its leaves");
  totals.add("loss", loss);
  const auto d_leaves = torch::autograd::grad({loss}, leaves);
  d_trunk.add_(torch::autograd::grad(outputs, {input}, d_leaves)[0]);
  reduce(model_.unit("value_heads"), last);
  reduce(model_.unit("norm"), last);
}

void MicroStep::evaluate(const MicroBatch& micro, StepTotals& totals) {
  const MemoryScope scope(MemoryCategory::activations);
  const at::AutoGradMode grad(false);
  micro_ = &micro;
  const Pass pass{false, config_.seed, 0, micro.batch.sequence};
  const Tensor trunk = forward_trunk(pass, nullptr);
  const Gathered norm(model_.unit("norm"), &model_.unit("output"));
  const Gathered output(model_.unit("output"));
  const Tensor losses = all_losses(trunk, pass);
  for (int64_t k = 1; k <= model_.num_heads(); ++k)
    totals.add("valid/" + std::to_string(k), losses.select(2, k - 1).sum(at::kDouble));
  for (const auto& unit : model_.units())
    if (unit->name() == "adapter") unit->release();
}

/// Two reduces under way at most: a third waits for the first, so that their buffers do not pile up.
void MicroStep::reduce(ShardUnit& unit, bool last) {
  unit.start_reduce(last);
  reducing_.push_back(&unit);
  if (reducing_.size() <= 2) return;
  reducing_.front()->finish_reduce();
  reducing_.erase(reducing_.begin());
}

void MicroStep::finish_reduces() {
  for (ShardUnit* unit : reducing_) unit->finish_reduce();
  reducing_.clear();
}

}  // namespace wmtp
