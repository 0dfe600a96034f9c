#include "engine/train/micro_step.hpp"

#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "engine/memory/phase.hpp"

namespace wmtp {
namespace {

using at::Tensor;

Tensor differentiate(const Tensor& output, const Tensor& input, const Tensor& d_output) {
  return torch::autograd::grad({output}, {input}, {d_output})[0];
}

Tensor as_leaf(const Tensor& x) { return x.detach().requires_grad_(true); }

/// Whether a parameter of the block or of its adapter trains.
bool block_trains(const ShardedModel& model, const std::string& block) {
  for (const ParameterGroup* group : model.trained_groups())
    for (const Placed& placed : group->parameters())
      if (placed.spec.name.starts_with(block + ".")) return true;
  return false;
}

}  // namespace

MicroStep::MicroStep(ShardedModel& model, ActivePipeline& pipeline, Channels& channels, const MicroStepConfig& config)
    : model_(model), pipeline_(pipeline), config_(config), value_loss_(model, pipeline) {
  if (model.num_heads() > 0) token_loss_.emplace(model, pipeline, channels, config.token_loss);
  embedding_trains_ = model.weight("tok_embeddings.weight").trains();
  lowest_block_ = model_.num_trunk_blocks();
  for (int64_t i = model_.num_trunk_blocks() - 1; i >= 0; --i)
    if (block_trains(model_, trunk_block_name(i))) lowest_block_ = i;
  if (embedding_trains_) lowest_block_ = 0;
  // The last blocks keep their graphs, because backward frees those first.
  lowest_kept_ = lowest_block_ +
                 std::llround(config_.activation_checkpointing * double(model_.num_trunk_blocks() - lowest_block_));
  if (config_.activation_offload) offloaded_ = make_offloaded_stack(model_.compute().device(), config_.offload_path);
}

ShardUnit* MicroStep::unit_after_trunk_block(int64_t block) const {
  return &model_.unit(block + 1 < model_.num_trunk_blocks() ? trunk_block_name(block + 1) : "norm");
}

void MicroStep::scale_gradients(double factor) {
  if (token_loss_) token_loss_->scale_gradients(factor);
  value_loss_.scale_gradients(factor);
}

void MicroStep::run(StepContext& step, bool last) {
  const MemoryScope scope(MemoryCategory::activations);
  const Pass pass{true, config_.seed, step.number(), step.batch().sequence};
  std::vector<Kept> kept;
  std::optional<Phase> phase(std::in_place, "forward");
  const Tensor trunk = forward_trunk(step.batch(), pass, &kept);
  Tensor d_trunk = at::zeros_like(trunk);
  {
    const Gathered norm(model_.unit("norm"), token_loss_ ? &model_.unit("output") : nullptr);
    phase.reset();
    if (!model_.value_heads().empty()) {
      const Phase value_heads("value_heads");
      value_loss_.differentiate(step, trunk, d_trunk);
      reduce(model_.unit("value_heads"), last);
    }
    if (token_loss_) run_heads(step, trunk, d_trunk, pass, last);
  }
  phase.emplace("backward");
  reduce(model_.unit("norm"), last);
  backward_trunk(step.batch(), std::move(kept), std::move(d_trunk), pass, last);
  if (ShardUnit* adapter = model_.adapter_unit()) {
    reduce(*adapter, last);
    adapter->release();
  }
  finish_reduces(0);
}

Tensor MicroStep::forward_trunk(const Batch& batch, const Pass& pass, std::vector<Kept>* kept) {
  if (ShardUnit* adapter = model_.adapter_unit()) adapter->ready();  // gathered once, because every block uses it
  Tensor h;
  {
    const Gathered embedding(model_.unit("tok_embeddings"), unit_after_trunk_block(-1));
    h = model_.embedded(batch.tokens);
  }
  for (int64_t i = 0; i < model_.num_trunk_blocks(); ++i) {
    const Gathered block(model_.unit(trunk_block_name(i)), unit_after_trunk_block(i));
    const bool keeps_graph = kept && i >= lowest_kept_;
    const bool offloads = kept && offloaded_ && i >= lowest_block_ && !keeps_graph;
    if (offloads) offloaded_->push(h);
    const Tensor input = keeps_graph ? as_leaf(h) : h;
    const at::AutoGradMode grad(keeps_graph);
    const Tensor output = model_.trunk_block(i).forward(input, model_.rotary(), pass);
    if (kept && i >= lowest_block_) kept->push_back({offloads ? Tensor() : input, keeps_graph ? output : Tensor()});
    h = output.detach();
  }
  if (kept && offloaded_) offloaded_->settle();
  return h;
}

void MicroStep::backward_trunk(const Batch& batch, std::vector<Kept> kept, Tensor d_output, const Pass& pass,
                               bool last) {
  for (int64_t i = model_.num_trunk_blocks() - 1; i >= lowest_block_; --i) {
    ShardUnit& unit = model_.unit(trunk_block_name(i));
    {
      const Gathered block(unit, i > lowest_block_ ? &model_.unit(trunk_block_name(i - 1)) : nullptr);
      Kept of_block = std::move(kept.back());
      kept.pop_back();
      if (!of_block.input.defined()) of_block.input = offloaded_->pop();
      if (!kept.empty() && !kept.back().input.defined()) offloaded_->prefetch();
      if (!of_block.output.defined()) {
        const at::AutoGradMode grad(true);
        of_block.input = as_leaf(of_block.input);
        of_block.output = model_.trunk_block(i).forward(of_block.input, model_.rotary(), pass);
      }
      d_output = differentiate(of_block.output, of_block.input, d_output);
    }
    reduce(unit, last);
  }
  if (!embedding_trains_) return;
  const WeightHandle embedding = model_.weight("tok_embeddings.weight");
  embedding.store->add_rows(embedding.index, batch.tokens.flatten(), d_output.flatten(0, 1));
  reduce(model_.unit("tok_embeddings"), last);
}

void MicroStep::run_heads(StepContext& step, const Tensor& trunk, Tensor& d_trunk, const Pass& pass, bool last) {
  const Phase weights("weights");
  token_loss_->weigh_before_the_heads(step);
  const Gathered output(model_.unit("output"), &model_.unit(head_block_name(model_.config(), 1)));
  token_loss_->weigh_all(step, [&](int64_t head) { return hidden_of(head, trunk, pass); });
  for (int64_t k = 1; k <= model_.num_heads(); ++k) {
    const Phase phase("head_" + std::to_string(k));
    ShardUnit& unit = model_.unit(head_block_name(model_.config(), k));
    {
      const Gathered block(unit,
                           k < model_.num_heads() ? &model_.unit(head_block_name(model_.config(), k + 1)) : nullptr);
      const Tensor input = as_leaf(trunk);
      Tensor hidden;
      {
        const at::AutoGradMode grad(true);
        hidden = model_.normed(model_.head_block(k).forward(input, model_.rotary(), pass));
      }
      d_trunk.add_(differentiate(hidden, input, token_loss_->gradient(step, k, hidden.detach())));
    }
    reduce(unit, last);
  }
  if (!model_.config().tie_word_embeddings) reduce(model_.unit("output"), last);  // tied: with the embedding
}

Tensor MicroStep::hidden_of(int64_t head, const Tensor& trunk, const Pass& pass) const {
  const Gathered block(model_.unit(head_block_name(model_.config(), head)));
  return model_.normed(model_.head_block(head).forward(trunk, model_.rotary(), pass));
}

/// Calls evaluate(trunk, pass) with the final norm gathered, after a forward pass that keeps nothing.
template <class Evaluate>
void MicroStep::without_gradient(const Batch& batch, Evaluate evaluate) {
  const MemoryScope scope(MemoryCategory::activations);
  const at::AutoGradMode grad(false);
  const Pass pass{false, config_.seed, 0, batch.sequence};
  const Tensor trunk = forward_trunk(batch, pass, nullptr);
  {
    const Gathered norm(model_.unit("norm"), token_loss_ ? &model_.unit("output") : nullptr);
    evaluate(trunk, pass);
  }
  if (ShardUnit* adapter = model_.adapter_unit()) adapter->release();
}

std::vector<Scores> MicroStep::evaluate(StepContext& step) {
  std::vector<Scores> scores;
  without_gradient(step.batch(), [&](const Tensor& trunk, const Pass& pass) {
    if (pipeline_.objective) value_loss_.evaluate(step, trunk);
    if (!token_loss_) return;
    const Gathered output(model_.unit("output"));
    for (int64_t k = 1; k <= model_.num_heads(); ++k)
      scores.push_back(token_loss_->scores(step, k, hidden_of(k, trunk, pass), {.hits = k == 1}));
  });
  return scores;
}

std::vector<WeighedLosses> MicroStep::weigh(StepContext& step) {
  std::vector<WeighedLosses> heads;
  without_gradient(step.batch(), [&](const Tensor& trunk, const Pass& pass) {
    if (!model_.value_heads().empty()) value_loss_.evaluate(step, trunk);
    const Gathered output(model_.unit("output"));
    token_loss_->weigh_before_the_heads(step);
    token_loss_->weigh_all(step, [&](int64_t head) { return hidden_of(head, trunk, pass); });
    for (int64_t k = 1; k <= model_.num_heads(); ++k)
      heads.push_back(token_loss_->weighed(step, k, hidden_of(k, trunk, pass)));
  });
  token_loss_->forget_weights();
  return heads;
}

void MicroStep::reduce(ShardUnit& unit, bool last) {
  unit.start_reduce(last);
  reducing_.push_back(&unit);
  finish_reduces(2);
}

/// Finishes all but the newest `most`, in shard groups and then in replicate groups, to bound the buffers in use.
void MicroStep::finish_reduces(size_t most) {
  const auto finish = [most](std::vector<ShardUnit*>& units, auto one) {
    while (units.size() > most) {
      one(*units.front());
      units.erase(units.begin());
    }
  };
  finish(reducing_, [this](ShardUnit& unit) {
    unit.finish_reduce();
    reducing_over_replicas_.push_back(&unit);
  });
  finish(reducing_over_replicas_, [](ShardUnit& unit) { unit.finish_replicate_reduce(); });
}

}  // namespace wmtp
