// formula: a weight given as text in the experiment, weight = "(1 - exp(-ce))^2", instead of a plugin.
//
//   ce        the policy's loss of the token             value     the model of [value] before the token is read
//   ref       the reference's loss of the token          position  the source's position in its sequence, from 0
//   excess    ce - ref                                   head      the head's number, from 1
//   entropy   of the policy's prediction                 uniform   a number in [0,1), the same at every mention
//   rank      number of tokens likelier than the token   progress  0 at the run's first step, 1 at its last
//   margin    its log p minus that of the best other     bytes     length of its text
//   NAME_loss, NAME_entropy  as ref, of the frozen model of [references.NAME]; reference_loss is ref
//   reference_entropy  of the reference's prediction     correct, pass_rate  of its record's answer, and of the problem
//   data_weight        of the record's weights           top_mass(k)  probability of the k likeliest tokens
//   agreement          of its likeliest token and head 1's (1 or 0)
//   previous_ce        ce of the step that last read the token, in the epoch before; ce itself if none has
//   alignment          of its head's gradient at the trunk's output with head 1's: their cosine
//   signed(x)          x, which is the whole formula, and may be negative
//   + - * / ^ < > <= >= (1 or 0)  min max clamp exp log  quantile(x, q) over the head's valid tokens on all ranks
//
// All are aligned by source position: the weight is that of the loss AT a source, so `value` has seen the tokens up to
// it. The weight is computed as early as the names allow: inside the loss if each token's weight depends only on its
// own loss, once per head if it also depends on a quantile, a position, a value or `uniform`, before the heads if it
// uses no signal of their predictions. Invalid tokens are masked unless the formula is finite and not negative for
// them; the host rejects weights of valid tokens that are not finite, or negative without signed().
#include <wmtp/plugin.hpp>

#include "compile.hpp"

namespace {

using wmtp::Signal;
using wmtp::Tensor;
using wmtp::ValueSignal;
using wmtp::When;

class Formula : public wmtp::Weighting {
 public:
  void options(wmtp::Options& o) override {
    program_.reset();
    o.text("weight", weight_,
           "over ce, ref, excess, entropy, rank, margin, agreement, alignment, previous_ce, reference_entropy, "
           "data_weight, "
           "bytes, correct, pass_rate, value, position, head, uniform, progress, NAME_loss and NAME_entropy of "
           "[references.NAME] with + - * / ^ < > <= >= min max clamp exp log quantile top_mass signed");
  }

  wmtp::Needs needs() const override {
    const formula::Program& program = compiled();
    wmtp::Needs needs{.when = when(program), .signed_weights = program.is_signed};
    for (const auto& [name, signal] : formula::host_signals)
      if (is_read(program, name)) needs.reads.push_back(signal);
    needs.references = program.references;
    needs.top_k = program.top_k;
    if (program.reads[formula::value]) needs.values.push_back(ValueSignal::frozen());
    return needs;
  }

  wmtp::Weights weigh(wmtp::TokenStep& step) override { return weights_of(step, nullptr); }
  wmtp::Weights weigh(wmtp::HeadStep& step) override { return weights_of(step, &step); }
  wmtp::Weights weigh(wmtp::BatchStep& step) override { return weights_of(step, &step); }

 private:
  /// `batch` is null at When::token, where the program reads no value, position or random number and has no quantile.
  wmtp::Weights weights_of(wmtp::TokenStep& step, wmtp::WholeBatch* batch) {
    const formula::Program& program = compiled();
    const Tensor valid = step.valid();
    if (program.constant) {
      if (*program.constant == 1) return wmtp::Weights::uniform();
      return wmtp::Weights::by_source(at::full(valid.sizes(), *program.constant, valid.options().dtype(at::kFloat)));
    }
    const formula::Signals signals = signals_of(step, batch, program);
    if (valid.dim() < 3) return wmtp::Weights::by_source(of_head(batch, signals, valid, step.head(), step.progress()));
    std::vector<Tensor> heads;
    for (int64_t k = 1; k <= step.heads(); ++k)
      heads.push_back(of_head(batch, signals, valid.select(2, k - 1), k, step.progress()));
    return wmtp::Weights::by_source(at::stack(heads, 2));
  }

  const formula::Program& compiled() const {
    if (!program_) {
      program_ = formula::compile(weight_);
      harmless_ = formula::harmless_at_zero(*program_);
    }
    return *program_;
  }

  /// `excess` is made of ce and ref.
  static bool is_read(const formula::Program& program, formula::Signal name) {
    const bool is_part = program.reads[formula::excess] && (name == formula::ce || name == formula::ref);
    return is_part || program.reads[name];
  }

  static When when(const formula::Program& program) {
    const auto& reads = program.reads;
    const bool of_policy = reads[formula::ce] || reads[formula::excess] || reads[formula::entropy] ||
                           reads[formula::rank] || reads[formula::margin] || reads[formula::agreement] ||
                           reads[formula::previous_ce] || reads[formula::top_mass];
    if (!of_policy) return When::before;
    const bool by_place = reads[formula::position] || reads[formula::value] || reads[formula::uniform];
    return by_place || program.has_quantile ? When::head : When::token;
  }

  static formula::Signals signals_of(wmtp::TokenStep& step, wmtp::WholeBatch* batch, const formula::Program& program) {
    const auto& reads = program.reads;
    formula::Signals signals(formula::num_tensors(program));
    for (const auto& [name, signal] : formula::host_signals)
      if (is_read(program, name)) signals[name] = step.get(signal);
    for (size_t i = 0; i < program.references.size(); ++i)
      signals[formula::num_signals + i] = step.get(program.references[i]);
    if (reads[formula::excess]) signals[formula::excess] = signals[formula::ce] - signals[formula::ref];
    if (reads[formula::value]) signals[formula::value] = batch->value(ValueSignal::frozen());
    if (reads[formula::uniform]) signals[formula::uniform] = batch->uniform(0);
    return signals;
  }

  Tensor of_head(wmtp::WholeBatch* batch, formula::Signals signals, const Tensor& valid, int64_t head,
                 double progress) const {
    const at::TensorOptions options = valid.options().dtype(at::kFloat);
    for (Tensor& signal : signals)
      if (signal.defined() && signal.dim() == 3) signal = signal.select(2, head - 1);
    if (program_->reads[formula::head]) signals[formula::head] = at::full({}, head, options);
    if (program_->reads[formula::progress]) signals[formula::progress] = at::full({}, progress, options);
    if (program_->reads[formula::position])
      signals[formula::position] = at::arange(valid.size(1), options).expand_as(valid);
    wmtp::Collectives* collectives = program_->has_quantile ? &batch->collectives() : nullptr;
    const Tensor weights = formula::run(*program_, signals, valid, collectives);
    return harmless_ ? weights : at::where(valid, weights, 0.0);
  }

  std::string weight_ = "1";
  mutable std::optional<formula::Program> program_;  // of weight_, compiled on first use
  mutable bool harmless_ = false;                    // no mask is needed
};

}  // namespace

WMTP_PIPELINE(Formula, "formula", "1.0", "a weight given as a formula in the experiment")
