#include "step/step_runner.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <deque>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "memory/phase.hpp"
#include "model/torch/embedding.hpp"
#include "step/head_products.hpp"

namespace wmtp {
namespace {

using at::Tensor;

Tensor differentiate(const Tensor& output, const Tensor& input, const Tensor& d_output) {
  return torch::autograd::grad({output}, {input}, {d_output})[0];
}

Tensor as_leaf(const Tensor& x) { return x.detach().requires_grad_(true); }

void compare(const MicroBatchContext& step, const std::vector<Tensor>& gradients) {
  const Phase phase("head_products");
  add_head_products(gradients, step.totals());
}

}  // namespace

StepRunner::StepRunner(ShardedModel& model, ActivePipeline& pipeline, Channels& channels,
                       const StepRunnerConfig& config)
    : model_(model),
      pipeline_(pipeline),
      config_(config),
      value_loss_(model, pipeline),
      backward_(model.backward_extent()),
      previous_border_(channels.previous_section(), model.compute()),
      next_border_(channels.next_section(), model.compute()) {
  if (model.num_heads() > 0) token_loss_.emplace(model, pipeline, channels, config.token_loss);
  is_chained_ = model.chains_heads();
  // The last blocks keep their graphs, because backward frees those first.
  const int64_t lowest_block = backward_.lowest_block(),
                trained_blocks = num_trunk_blocks(model_.config()) - lowest_block;
  lowest_kept_ = lowest_block + std::llround(config_.activation_checkpointing * double(trained_blocks));
  if (config_.activation_offload && lowest_kept_ == lowest_block)
    throw Error(ExitStatus::usage,
                "[parallel] activation_offload = true, but activation_checkpointing recomputes none of the " +
                    counted(trained_blocks, "trained trunk block") +
                    ", whose inputs it would offload; remove it, or set activation_checkpointing = \"full\"");
  for (int64_t i = 0; config_.activation_offload && i <= model_.section().num_after(); ++i)
    offloaded_.push_back(make_offloaded_stack(model_.compute().device(), config_.offload_path));
}

void StepRunner::scale_gradients(double factor) {
  if (token_loss_) token_loss_->scale_gradients(factor);
  value_loss_.scale_gradients(factor);
}

void StepRunner::run(const std::vector<MicroBatch>& micros, const OpenStep& open) {
  const auto count = int64_t(micros.size()), ahead = model_.section().num_after();
  std::deque<std::pair<std::unique_ptr<MicroBatchContext>, InFlight>> in_flight;
  const auto shape_if = [&](bool is_received, int64_t index) {
    return is_received ? hidden_shape(micros[size_t(index)]) : std::vector<int64_t>();
  };
  Tensor d_input;
  for (int64_t k = 0;; ++k) {
    const bool has_forward = k < count, has_backward = k >= ahead;
    const Tensor input = previous_border_.exchange(d_input, shape_if(has_forward && previous_border_.exists(), k));
    if (k == count + ahead) break;  // that exchange passed on the last gradient
    Tensor output;
    if (has_forward) {
      std::unique_ptr<MicroBatchContext> step = open(size_t(k));
      MicroBatchContext& opened = *step;
      in_flight.emplace_back(std::move(step), begun(opened, size_t(k)));
      output = forward(in_flight.back().second, input);
    }
    const bool receives = has_backward && next_border_.exists() && trains_up_to_here();
    const Tensor d_output = next_border_.exchange(output, shape_if(receives, k - ahead));
    d_input.reset();
    if (!has_backward) continue;
    d_input = backward(in_flight.front().second, d_output, /*last=*/k - ahead == count - 1);
    in_flight.pop_front();
  }
  const Phase phase("backward");
  model_.sum_over_twins();
}

StepRunner::InFlight StepRunner::begun(MicroBatchContext& step, size_t index) const {
  OffloadedStack* const offloaded = offloaded_.empty() ? nullptr : offloaded_[index % offloaded_.size()].get();
  return {
      step,
      model_.forward_context(true, config_.seed, step.number(), step.batch().sequence, step.micro_batch().documents),
      offloaded};
}

std::vector<int64_t> StepRunner::hidden_shape(const MicroBatch& micro) const {
  const Tensor& tokens = micro.batch.tokens;
  return {tokens.size(0), model_.split().local_positions(tokens.size(1)).count, model_.config().dim};
}

Tensor StepRunner::forward(InFlight& micro, const Tensor& input) {
  const MemoryScope scope(MemoryCategory::activations);
  const Phase phase("forward");
  micro.inputs = forward_trunk(micro.step.batch(), micro.context, input, micro.offloaded, &micro.kept);
  return model_.section().is_last() ? Tensor() : std::move(micro.inputs.trunk);
}

Tensor StepRunner::backward(InFlight& micro, const Tensor& d_output, bool last) {
  const MemoryScope scope(MemoryCategory::activations);
  if (ShardUnit* adapter = model_.adapter_unit()) adapter->finish_gather();  // another micro-batch has released it
  HeadInputs d_inputs{d_output, {}, {}};
  if (model_.section().is_last()) {
    MicroBatchContext& step = micro.step;
    const HeadInputs& inputs = micro.inputs;
    std::optional<Phase> phase(std::in_place, "forward");
    d_inputs.trunk = at::zeros_like(inputs.trunk);
    if (is_chained_ && backward_.trains_embedding()) {
      d_inputs.embedded = at::zeros_like(inputs.embedded);
      d_inputs.next = at::zeros_like(inputs.next);
    }
    const GatherScope norm(model_.unit("norm"), token_loss_ ? &model_.unit("output") : nullptr);
    phase.reset();
    if (!model_.value_heads().empty()) {
      const Phase value_heads("value_heads");
      value_loss_.differentiate(step, inputs.trunk, micro.context, d_inputs.trunk);
      reductions_.start(model_.unit("value_heads"), last);
    }
    if (token_loss_) run_heads(step, inputs, d_inputs, micro.context, last);
  }
  const Phase phase("backward");
  if (model_.section().is_last()) {
    reductions_.start(model_.unit("norm"), last);
    if (model_.has_twin()) backward_embedding(micro.step.batch(), {}, d_inputs, last);
  }
  Tensor d_input = backward_trunk(micro, std::move(d_inputs), last);
  if (ShardUnit* adapter = model_.adapter_unit()) {
    reductions_.start(*adapter, last);
    adapter->release();
  }
  reductions_.finish();
  micro.inputs = {};  // within this phase, whose peak includes them
  return d_input;
}

HeadInputs StepRunner::forward_trunk(const Batch& batch, const ForwardContext& context, const Tensor& input,
                                     OffloadedStack* offloaded, std::vector<KeptBlock>* kept) {
  if (ShardUnit* adapter = model_.adapter_unit())
    adapter->finish_gather();  // gathered once, because every block uses it
  HeadInputs inputs;
  const auto first = [&] {
    const bool is_first = model_.section().is_first();
    if (!is_first && !is_chained_) return input;
    const Tensor embedded = embedded_for_heads(model_, batch.tokens, inputs);
    return is_first ? embedded : input;
  };
  const auto run_block = [&](int64_t i, const Tensor& h) {
    const bool keeps_graph = kept && i >= lowest_kept_;
    const bool offloads = kept && offloaded && i >= backward_.lowest_block() && !keeps_graph;
    if (offloads) offloaded->push(h);
    const Tensor block_input = keeps_graph ? as_leaf(h) : h;
    const at::AutoGradMode grad(keeps_graph);
    const Tensor output = model_.trunk_block(i).forward(block_input, model_.rotary(), context);
    if (kept && i >= backward_.lowest_block())
      kept->push_back({offloads ? Tensor() : block_input, keeps_graph ? output : Tensor()});
    return output.detach();
  };
  ShardUnit* const after = model_.section().is_last() ? &model_.unit("norm") : nullptr;
  inputs.trunk = model_.forward_trunk(after, first, run_block);
  if (kept && offloaded) offloaded->wait_for_copies();
  return inputs;
}

void StepRunner::add_to_embedded(int64_t head, const Tensor& d_embedded, HeadInputs& d_inputs) {
  const int64_t own = d_embedded.size(1) - (head - 1);
  d_inputs.embedded.narrow(1, head - 1, own).add_(d_embedded.narrow(1, 0, own));
  d_inputs.next.narrow(1, 0, head - 1).add_(d_embedded.narrow(1, own, head - 1));
}

Tensor StepRunner::backward_trunk(InFlight& micro, HeadInputs d_inputs, bool last) {
  const Batch& batch = micro.step.batch();
  std::vector<KeptBlock> kept = std::move(micro.kept);
  OffloadedStack* const offloaded = micro.offloaded;
  Tensor d_output = std::move(d_inputs.trunk);
  const int64_t lowest = std::max(backward_.lowest_block(), model_.blocks().first);
  for (int64_t i = model_.blocks().end - 1; i >= lowest; --i) {
    ShardUnit& unit = model_.unit(trunk_block_name(i));
    {
      const GatherScope block(unit, i > lowest ? &model_.unit(trunk_block_name(i - 1)) : nullptr);
      KeptBlock of_block = std::move(kept.back());
      kept.pop_back();
      if (!of_block.input.defined()) of_block.input = offloaded->pop();
      if (!kept.empty() && !kept.back().input.defined()) offloaded->prefetch();
      if (!of_block.output.defined()) {
        const at::AutoGradMode grad(true);
        of_block.input = as_leaf(of_block.input);
        of_block.output = model_.trunk_block(i).forward(of_block.input, model_.rotary(), micro.context);
      }
      d_output = differentiate(of_block.output, of_block.input, d_output);
    }
    reductions_.start(unit, last);
  }
  if (!model_.section().is_first()) return trains_before() ? d_output : Tensor();
  if (backward_.trains_embedding()) backward_embedding(batch, std::move(d_output), d_inputs, last);
  return {};
}

/// `d_trunk`: of the embeddings that the first block reads, undefined if it is in another section.
void StepRunner::backward_embedding(const Batch& batch, Tensor d_trunk, const HeadInputs& d_heads, bool last) {
  const WeightHandle embedding = model_.weight("tok_embeddings.weight");
  const auto add = [&](const Tensor& tokens, const Tensor& d_embedded) {
    add_embedded(embedding, model_.config().vocab_size, tokens, d_embedded, model_.vocabulary());
  };
  if (is_chained_) d_trunk = d_trunk.defined() ? d_trunk.add_(d_heads.embedded) : d_heads.embedded;
  if (d_trunk.defined()) add(model_.split().part(batch.tokens), d_trunk);
  if (is_chained_ && !model_.split().is_whole()) add(next_tokens(model_, batch.tokens), d_heads.next);  // whole: zero
  reductions_.start(model_.unit("tok_embeddings"), last);
}

void StepRunner::run_heads(MicroBatchContext& step, const HeadInputs& inputs, HeadInputs& d_inputs,
                           const ForwardContext& context, bool last) {
  read_alignment(step, inputs, context);
  const Phase weights("weights");
  token_loss_->weigh_before_the_heads(step);
  const GatherScope output(model_.unit("output"), head_unit(1));
  token_loss_->weigh_all(step, heads_in_order(inputs, context));
  if (is_chained_)
    run_chained(step, inputs, d_inputs, context, last);
  else
    run_parallel(step, inputs, d_inputs, context, last);
  if (!model_.config().tie_word_embeddings)  // tied: with the embedding
    reductions_.start(model_.unit("output"), last);
}

void StepRunner::run_parallel(MicroBatchContext& step, const HeadInputs& inputs, HeadInputs& d_inputs,
                              const ForwardContext& context, bool last) {
  std::vector<Tensor> compared(step.compares_heads() ? size_t(model_.num_heads()) : 0);
  for (int64_t k = 1; k <= model_.num_heads(); ++k) {
    const Phase phase("head_" + std::to_string(k));
    {
      const GatherScope block(*head_unit(k), head_unit(k + 1));
      const bool is_reached = backward_.reaches_head(k);
      const Tensor input = is_reached ? as_leaf(inputs.trunk) : inputs.trunk;
      const Tensor hidden = run_head(k, input, {}, context, is_reached).hidden;
      if (is_reached) {
        const Tensor d_trunk = differentiate(hidden, input, token_loss_->gradient(step, k, hidden.detach()));
        if (k == 1 || !config_.detach_heads) d_inputs.trunk.add_(d_trunk);
        if (step.compares_heads()) compared[size_t(k - 1)] = d_trunk;
      } else {
        token_loss_->add_loss(step, k, hidden);
      }
    }
    reductions_.start(*head_unit(k), last);
  }
  if (step.compares_heads()) compare(step, compared);
}

/// The losses are computed in the order of the heads, which weightings with a state depend on.
void StepRunner::run_chained(MicroBatchContext& step, const HeadInputs& inputs, HeadInputs& d_inputs,
                             const ForwardContext& context, bool last) {
  std::vector<Tensor> read{inputs.trunk};  // by each head
  std::vector<Tensor> d_hidden;  // by the heads' own losses; the last head's follows when it is differentiated
  const int64_t first = backward_.first_head();
  for (int64_t k = 1; k < std::max(model_.num_heads(), first); ++k) {
    const Phase phase("head_" + std::to_string(k));
    const GatherScope block(*head_unit(k), head_unit(k + 1));
    const auto [output, hidden] = run_head(k, read.back(), embedded_for(k, inputs), context, /*graph=*/false);
    read.push_back(output);
    if (backward_.reaches_head(k))
      d_hidden.push_back(token_loss_->gradient(step, k, hidden));
    else
      token_loss_->add_loss(step, k, hidden);
  }
  Tensor d_output;               // by the next head
  std::vector<Tensor> compared;  // of what d_output sums, by each loss
  for (int64_t k = model_.num_heads(); k >= first; --k) {
    const Phase phase("head_" + std::to_string(k));
    {
      const GatherScope block(*head_unit(k), head_unit(k - 1));
      const Tensor input = as_leaf(read.back());
      read.pop_back();
      Tensor embedded = embedded_for(k, inputs);
      const bool embeds = embedded.defined();
      if (embeds) embedded.requires_grad_(true);  // for enorm even if the embedding is frozen
      const auto [output, hidden] = run_head(k, input, embedded, context, /*graph=*/true);
      if (k == model_.num_heads()) d_hidden.push_back(token_loss_->gradient(step, k, hidden.detach()));
      std::vector<Tensor> outputs{hidden}, d_outputs{std::move(d_hidden.back())}, head_inputs{input};
      d_hidden.pop_back();
      if (d_output.defined()) {
        if (step.compares_heads()) compared = own_gradients(hidden, d_outputs[0], output, compared, input);
        outputs.push_back(output);
        d_outputs.push_back(std::move(d_output));
      }
      if (embeds) head_inputs.push_back(embedded);
      const auto gradients = torch::autograd::grad(outputs, head_inputs, d_outputs);
      d_output = k == 2 && config_.detach_heads ? Tensor() : gradients[0];
      if (step.compares_heads() && compared.empty()) compared = {gradients[0]};
      if (embeds && backward_.trains_embedding() && !config_.detach_heads) add_to_embedded(k, gradients[1], d_inputs);
    }
    if (head_unit(k - 1) != head_unit(k)) reductions_.start(*head_unit(k), last);  // else the head before adds to it
  }
  if (first == 1) d_inputs.trunk.add_(d_output);
  if (step.compares_heads()) compare(step, compared);
}

std::vector<Tensor> StepRunner::own_gradients(const Tensor& hidden, const Tensor& d_hidden, const Tensor& output,
                                              const std::vector<Tensor>& of_later, const Tensor& input) {
  const InputGradientsOnly only;
  const auto of_input = [&](const Tensor& from, const Tensor& d_from) {
    return torch::autograd::grad({from}, {input}, {d_from}, /*retain_graph=*/true)[0];
  };
  std::vector<Tensor> gradients{of_input(hidden, d_hidden)};
  for (const Tensor& of_one : of_later) gradients.push_back(of_input(output, of_one));
  return gradients;
}

/// Signal::policy_alignment, if the pipeline reads it. A gradient that is not finite aligns with none; the step's norm
/// is then infinite, as if it were one of the parameters'.
void StepRunner::read_alignment(MicroBatchContext& step, const HeadInputs& inputs, const ForwardContext& context) {
  if (!pipeline_.reads(Signal::policy_alignment)) return;
  const Phase phase("alignment");
  const GatherScope output(model_.unit("output"), head_unit(1));
  const HeadAlignment alignment = aligned(inputs, context, [&](int64_t head, const Tensor& hidden) {
    return token_loss_->unweighted_gradient(step, head, hidden);
  });
  step.totals().add("norm/part", at::where(alignment.cosines.isfinite().all(), 0.0, double{INFINITY}));
  const Tensor cosines = alignment.cosines.nan_to_num(/*nan=*/0).to(at::kFloat);
  step.set_alignment(model_.split().whole(cosines));
}

/// The output layer must be gathered.
HeadAlignment StepRunner::aligned(const HeadInputs& inputs, const ForwardContext& context,
                                  const HiddenGradient& of_hidden) const {
  const InputGradientsOnly only;
  HeadAligner aligner;
  if (is_chained_) {
    for (const Tensor& gradient : chained_gradients(inputs, context, of_hidden)) aligner.add(gradient);
    return aligner.result();
  }
  for (int64_t k = 1; k <= model_.num_heads(); ++k) {
    const GatherScope block(*head_unit(k), head_unit(k + 1));
    const Tensor input = as_leaf(inputs.trunk);
    const Tensor hidden = run_head(k, input, {}, context, /*graph=*/true).hidden;
    aligner.add(differentiate(hidden, input, of_hidden(k, hidden.detach())));
  }
  return aligner.result();
}

/// Of each head, from the first, in the order of run_chained.
std::vector<Tensor> StepRunner::chained_gradients(const HeadInputs& inputs, const ForwardContext& context,
                                                  const HiddenGradient& of_hidden) const {
  std::vector<Tensor> read{inputs.trunk}, d_hidden, gradients;
  for (int64_t k = 1; k < model_.num_heads(); ++k) {
    const GatherScope block(*head_unit(k), head_unit(k + 1));
    const auto [output, hidden] = run_head(k, read.back(), embedded_for(k, inputs), context, /*graph=*/false);
    read.push_back(output);
    d_hidden.push_back(of_hidden(k, hidden));
  }
  for (int64_t k = model_.num_heads(); k >= 1; --k) {
    const GatherScope block(*head_unit(k), head_unit(k - 1));
    const Tensor input = as_leaf(read.back());
    read.pop_back();
    const auto [output, hidden] = run_head(k, input, embedded_for(k, inputs), context, /*graph=*/true);
    if (k == model_.num_heads()) d_hidden.push_back(of_hidden(k, hidden.detach()));
    gradients = own_gradients(hidden, d_hidden.back(), output, gradients, input);
    d_hidden.pop_back();
  }
  return gradients;
}

StepRunner::HeadOutput StepRunner::run_head(int64_t head, const Tensor& input, const Tensor& embedded,
                                            const ForwardContext& context, bool graph) const {
  const at::AutoGradMode grad(graph);
  const Tensor output = model_.head_block(head).forward(input, model_.rotary(), context, embedded);
  return {output, model_.normed(output)};
}

/// Returns the normed hidden states of a head, without gradients. Call it for each head, in order.
std::function<Tensor(int64_t)> StepRunner::heads_in_order(const HeadInputs& inputs,
                                                          const ForwardContext& context) const {
  return [this, inputs, context, read = inputs.trunk](int64_t head) mutable {
    ShardUnit *const unit = head_unit(head), *const next = head_unit(head + 1);
    const GatherScope block(*unit, next == unit ? next : nullptr);
    const auto [output, hidden] = run_head(head, read, embedded_for(head, inputs), context, /*graph=*/false);
    if (is_chained_) read = output;
    return hidden;
  };
}

/// Null for a head that the model does not have.
ShardUnit* StepRunner::head_unit(int64_t head) const {
  const bool has_head = head >= 1 && head <= model_.num_heads();
  return has_head ? &model_.unit(head_block_name(model_.config(), head)) : nullptr;
}

/// Without dropout, so that neither the seed nor the step matters.
ForwardContext StepRunner::evaluation_context(const MicroBatch& micro) const {
  return model_.forward_context(false, config_.seed, 0, micro.batch.sequence, micro.documents);
}

/// Calls evaluate(inputs of the heads) with the final norm gathered, after a forward pass that keeps nothing; only in
/// the section with the heads.
template <class Evaluate>
void StepRunner::without_gradient(const MicroBatch& micro, const ForwardContext& context, Evaluate evaluate) {
  const MemoryScope scope(MemoryCategory::activations);
  const at::AutoGradMode grad(false);
  const Tensor input =
      previous_border_.exchange({}, previous_border_.exists() ? hidden_shape(micro) : std::vector<int64_t>());
  const HeadInputs inputs = forward_trunk(micro.batch, context, input, nullptr, nullptr);
  if (!model_.section().is_last()) {
    next_border_.exchange(inputs.trunk, {});
  } else {
    const GatherScope norm(model_.unit("norm"), token_loss_ ? &model_.unit("output") : nullptr);
    evaluate(inputs);
  }
  if (ShardUnit* adapter = model_.adapter_unit()) adapter->release();
}

std::vector<Scores> StepRunner::evaluate(MicroBatchContext& step) {
  std::vector<Scores> scores;
  const MicroBatch& micro = step.micro_batch();
  const ForwardContext context = evaluation_context(micro);
  without_gradient(micro, context, [&](const HeadInputs& inputs) {
    if (pipeline_.objective) value_loss_.evaluate(step, inputs.trunk, context);
    if (!token_loss_) return;
    const GatherScope output(model_.unit("output"));
    const auto hidden_of = heads_in_order(inputs, context);
    for (int64_t k = 1; k <= model_.num_heads(); ++k)
      scores.push_back(token_loss_->scores(step, k, hidden_of(k), {.hits = true}));
  });
  return scores;
}

/// Calls evaluate(inputs of the heads) with the pipeline's weights of the moments before the heads.
template <class Evaluate>
void StepRunner::after_weighing(MicroBatchContext& step, const ForwardContext& context, Evaluate evaluate) {
  without_gradient(step.micro_batch(), context, [&](const HeadInputs& inputs) {
    if (!model_.value_heads().empty()) value_loss_.evaluate(step, inputs.trunk, context);
    read_alignment(step, inputs, context);
    const GatherScope output(model_.unit("output"));
    token_loss_->weigh_before_the_heads(step);
    token_loss_->weigh_all(step, heads_in_order(inputs, context));
    evaluate(inputs);
  });
}

std::vector<WeighedLosses> StepRunner::weigh(MicroBatchContext& step) {
  std::vector<WeighedLosses> heads;
  const ForwardContext context = evaluation_context(step.micro_batch());
  after_weighing(step, context, [&](const HeadInputs& inputs) {
    const auto hidden_of = heads_in_order(inputs, context);
    for (int64_t k = 1; k <= model_.num_heads(); ++k) heads.push_back(token_loss_->weighed(step, k, hidden_of(k)));
  });
  return heads;
}

HeadAlignment StepRunner::align(MicroBatchContext& step) {
  HeadAlignment alignment;
  const ForwardContext context = evaluation_context(step.micro_batch());
  after_weighing(step, context, [&](const HeadInputs& inputs) {
    alignment = aligned(inputs, context,
                        [&](int64_t head, const Tensor& hidden) { return token_loss_->gradient(step, head, hidden); });
    alignment.products.div_(std::pow(token_loss_->gradient_scale(), 2));
    for (Tensor* each : {&alignment.products, &alignment.cosines}) *each = model_.split().whole(*each);
  });
  return alignment;
}

Tensor StepRunner::weight_sums(MicroBatchContext& step) {
  std::vector<Tensor> sums;
  const MicroBatch& micro = step.micro_batch();
  const bool reads_heads = !pipeline_.needs.heads.empty() || pipeline_.reads(Signal::policy_alignment);
  if (pipeline_.needs.when == When::before && !reads_heads) {
    if (!token_loss_) return {};
    const Tensor& tokens = micro.batch.tokens;
    const Tensor unread = at::empty({tokens.size(0), model_.split().local_positions(tokens.size(1)).count, 0},
                                    tokens.options().dtype(at::kFloat));
    token_loss_->weigh_before_the_heads(step);
    for (int64_t k = 1; k <= model_.num_heads(); ++k) sums.push_back(token_loss_->weight_sum(step, k, unread));
  } else {
    const ForwardContext context =
        model_.forward_context(true, config_.seed, step.number(), micro.batch.sequence, micro.documents);
    after_weighing(step, context, [&](const HeadInputs& inputs) {
      const auto hidden_of = heads_in_order(inputs, context);
      for (int64_t k = 1; k <= model_.num_heads(); ++k) sums.push_back(token_loss_->weight_sum(step, k, hidden_of(k)));
    });
  }
  forget_weights();
  return sums.empty() ? Tensor() : at::stack(sums);
}

}  // namespace wmtp
