// The sdk's steps as views of a MicroBatchContext: one per moment, with exactly what is available at that moment.
#pragma once

#include <string>
#include <wmtp/pipeline.hpp>

#include "step/micro_batch_context.hpp"

namespace wmtp {

/// The common part of the sdk's steps; `Base` is one of them.
template <class Base>
class StepView : public Base {
 public:
  explicit StepView(MicroBatchContext& context) : context_(context) {}
  int64_t number() const override { return context_.number(); }
  int64_t total() const override { return context_.total(); }
  int64_t heads() const override { return context_.heads(); }
  int64_t offset(int64_t head) const override { return context_.offset(head); }
  int64_t vocab_size() const override { return context_.vocab_size(); }
  Tensor counts() override { return context_.counts(); }
  Tensor answer_tokens() override { return context_.answer_tokens(); }
  Tensor pairs() override { return context_.pairs(); }
  Tensor valid() override { return context_.valid(); }
  void metric(const std::string& name, const Tensor& sum, const Tensor& count) override {
    context_.metric(name, sum, count);
  }

 protected:
  MicroBatchContext& context_;
};

/// The part for steps that see the whole micro-batch.
template <class Base>
class WholeView : public StepView<Base> {
 public:
  using StepView<Base>::StepView;
  const Batch& batch() const override { return this->context_.batch(); }
  Collectives& collectives() override { return this->context_.collectives(); }
  Tensor value(const ValueSignal& value) override { return this->context_.value(value); }
  Tensor uniform(int64_t stream) override { return this->context_.uniform(stream); }
  Tensor& state(const std::string& name, const Tensor& first) override { return this->context_.state(name, first); }
};

/// The part for steps that read token signals.
template <class View>
class TokenPart final : public View {
 public:
  using View::View;
  int64_t head() const override { return this->context_.head(); }
  Tensor get(Signal signal) override { return this->context_.signal(signal); }
  Tensor get(const ReferenceSignal& signal) override { return this->context_.signal(signal); }
};
using TokenView = TokenPart<StepView<TokenStep>>;
using HeadView = TokenPart<WholeView<HeadStep>>;
using BatchView = TokenPart<WholeView<BatchStep>>;

class ValueView final : public WholeView<ValueStep> {
 public:
  using WholeView::WholeView;
  Tensor leaf(const ValueSignal& value) override { return context_.leaf(value); }
};

/// Calls the `weigh` of the context's current moment.
inline Weights weigh(Weighting& weighting, MicroBatchContext& context) {
  const auto call = [&](auto view) { return weighting.weigh(view); };
  if (context.when() == When::token) return call(TokenView(context));
  if (context.when() == When::head) return call(HeadView(context));
  return call(BatchView(context));
}

}  // namespace wmtp
