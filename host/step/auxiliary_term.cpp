#include "step/auxiliary_term.hpp"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "plugins/torch/boundary.hpp"
#include "step/frozen_cache.hpp"
#include "step/step_views.hpp"

namespace wmtp {
namespace {

using at::Tensor;

/// What a chunk offers to the plugin.
struct Chunk {
  int64_t head;
  Tensor logits, targets, reference_logits, head_1_logits, upcoming, correct;
};

class LogitsView final : public StepView<LogitsStep> {
 public:
  LogitsView(MicroBatchContext& context, const Chunk& chunk) : StepView(context), chunk_(chunk) {}
  int64_t head() const override { return chunk_.head; }
  Tensor logits() override { return chunk_.logits; }
  Tensor targets() override { return chunk_.targets; }
  Tensor reference_logits() override { return declared(chunk_.reference_logits, "reference_logits"); }
  Tensor head_1_logits() override { return declared(chunk_.head_1_logits, "head_1_logits"); }
  Tensor upcoming() override { return declared(chunk_.upcoming, "upcoming"); }
  Tensor correct() override { return declared(chunk_.correct, "correct"); }

 private:
  static Tensor declared(const Tensor& tensor, const std::string& what) {
    if (!tensor.defined()) throw Error(ExitStatus::plugin, "it reads " + what + ", which its needs() do not declare");
    return tensor;
  }
  const Chunk& chunk_;
};

/// The source rows of a chunk.
struct Sources {
  Tensor sequence, position;  ///< [m] int64: of the micro-batch, of the sequence
};

Sources sources_in(const HeadRows& rows, int64_t begin, int64_t m) {
  const Tensor flat = rows.index.defined() ? rows.index.narrow(0, begin, m)
                                           : at::arange(begin, begin + m, rows.targets.options().dtype(at::kLong));
  const int64_t count = std::max<int64_t>(rows.sources.count, 1);
  return {at::floor_divide(flat, count), flat.remainder(count) + rows.sources.first};
}

/// [m,count]: the tokens after each source, -1 where there is none in its document.
Tensor upcoming_tokens(const MicroBatch& micro, const Sources& sources, int64_t count) {
  const Tensor& tokens = micro.batch.tokens;
  const int64_t S = tokens.size(1);
  const Tensor first = (sources.sequence * S).unsqueeze(1);
  const Tensor after = sources.position.unsqueeze(1) + at::arange(1, count + 1, sources.position.options());
  const Tensor place = first + after.clamp_max(S - 1);
  const auto at_place = [&](const Tensor& values) { return values.reshape({-1}).take(place); };
  Tensor is_there = (after < S).logical_and(at_place(micro.batch.kind).ne(0));
  if (const Tensor& begins = micro.documents.begins; begins.defined())
    is_there = is_there.logical_and(
        at_place(begins).eq(begins.reshape({-1}).take(first.squeeze(1) + sources.position).unsqueeze(1)));
  return at_place(tokens).masked_fill(is_there.logical_not(), -1);
}

void check_form(const Tensor& loss, const Tensor& logits) {
  const auto refuse = [](const std::string& found, const std::string& wanted) {
    throw Error(ExitStatus::plugin, "its loss is " + found + ", wanted " + wanted);
  };
  if (!loss.defined()) refuse("undefined", "a tensor");
  const int64_t m = logits.size(0);
  if (loss.dim() != 1 || loss.size(0) != m)
    refuse("of shape " + shape_text(loss.sizes()), "one number per token, [" + std::to_string(m) + "]");
  if (loss.scalar_type() != at::kFloat) refuse(std::string("of type ") + c10::toString(loss.scalar_type()), "fp32");
  if (loss.device() != logits.device()) refuse("on " + loss.device().str(), logits.device().str());
  if (!loss.requires_grad()) refuse("constant", "one that depends on logits()");
}

/// `hidden` [B,L,D] with the positions after this rank's that a next-token head predicts a target of another head from.
Tensor with_later_sources(const SequenceSplit& split, const Tensor& hidden, const MicroBatchContext& step) {
  const int64_t later = step.offset(step.heads()) - 1;
  return split.is_whole() || later == 0 ? hidden : split.with_following(hidden, later);
}

/// [B,L,D] of a head of the reference, whose row for a target of the policy's head is `away` positions later.
Tensor reference_hidden(MicroBatchContext& step, int64_t head, int64_t& away) {
  const Tensor& all = step.reference_hidden();
  const bool has_own_heads = all.size(0) > 1;
  away = has_own_heads ? 0 : step.offset(head) - 1;
  const Tensor hidden = all.select(0, has_own_heads ? head - 1 : 0);
  return with_later_sources(step.reference().split(), hidden, step);
}

}  // namespace

void AuxiliaryTerm::keep_head_1(const ActiveAuxiliaryLoss& auxiliary, MicroBatchContext& step,
                                const ShardedModel& model, const Tensor& hidden) {
  if (auxiliary.needs.head_1) step.set_head_1(with_later_sources(model.split(), hidden.detach(), step));
}

AuxiliaryTerm::AuxiliaryTerm(const ActiveAuxiliaryLoss& auxiliary, const HeadRows& rows,
                             const LinearCrossEntropy& policy, double coefficient, double factor)
    : auxiliary_(auxiliary), rows_(rows), policy_(policy), coefficient_(coefficient), factor_(factor) {
  if (auxiliary.needs.reference) {
    int64_t away = 0;
    const Tensor hidden = reference_hidden(rows.step, rows.head, away);
    reference_hidden_ = rows.of(hidden, away);
    reference_output_.emplace(rows.step.reference().output_unit());
  }
  if (auxiliary.needs.head_1) head_1_hidden_ = rows.of(rows.step.head_1(), rows.offset - 1);
  sum_ = at::zeros({}, rows.hidden.options().dtype(at::kDouble));
}

Tensor AuxiliaryTerm::gradient(const Tensor& logits, int64_t begin, int64_t n) {
  MicroBatchContext& step = rows_.step;
  const int64_t m = logits.size(0);
  const auto teacher = [&](const LinearCrossEntropy& output, const Tensor& hidden) {
    if (!hidden.defined()) return Tensor();
    if (n == 0) return at::empty_like(logits, at::kFloat);
    const bool is_last = begin + m == rows_.targets.size(0);
    const Tensor logits_of = output.logits(hidden.narrow(0, begin, is_last ? hidden.size(0) - begin : m), n);
    return logits_of.narrow(0, 0, m).to(at::kFloat);
  };
  Chunk chunk{rows_.head,
              logits.detach().to(at::kFloat).requires_grad_(true),
              rows_.targets.narrow(0, begin, m).clone(),
              auxiliary_.needs.reference ? teacher(step.reference().output(), reference_hidden_) : Tensor(),
              teacher(policy_, head_1_hidden_),
              {},
              {}};
  const bool needs_sources = auxiliary_.needs.correct || auxiliary_.needs.upcoming > 0;
  const Sources sources = needs_sources ? sources_in(rows_, begin, m) : Sources();
  if (auxiliary_.needs.correct) chunk.correct = step.batch().correct.index_select(0, sources.sequence);
  if (auxiliary_.needs.upcoming > 0)
    chunk.upcoming = upcoming_tokens(step.micro_batch(), sources, auxiliary_.needs.upcoming);
  step.enter({When::token, rows_.head, at::ones_like(chunk.targets, at::kBool), {}, begin, rows_.index, rows_.sources});
  const at::AutoGradMode grad(true);
  called_ = true;
  return guarded(auxiliary_.name, "loss", [&] {
    LogitsView view(step, chunk);
    const Tensor loss = auxiliary_.loss->loss(view);
    step.leave();
    check_form(loss, chunk.logits);
    sum_ += loss.detach().sum(at::kDouble);
    return torch::autograd::grad({loss}, {chunk.logits}, {at::full_like(loss.detach(), coefficient_ * factor_)})[0];
  });
}

void AuxiliaryTerm::add_to_totals() {
  // A rank without targets also calls the plugin: every rank must report the same metrics.
  if (!called_) gradient(at::empty({0, rows_.step.vocab_size()}, rows_.hidden.options()), 0, 0);
  StepTotals& totals = rows_.step.totals();
  totals.add("loss", sum_ * coefficient_);
  totals.add("auxiliary/" + std::to_string(rows_.head), sum_);
}

}  // namespace wmtp
