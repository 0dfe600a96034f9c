// shuffled: the weights of the inner weighting, permuted among the valid tokens of each sequence, separately for each
// head if the weights are per head: a control with the same distribution of weights, but assigned to random tokens (as
// in wooshikwon/weighted_mtp). Every sequence keeps its weights and so their sum.
//
// The i-th valid position gets the weight of the valid position with the i-th smallest of uniform numbers, so the
// permutation is the same in every layout, and no tensor value is read on the host.
#include <algorithm>
#include <optional>
#include <tuple>
#include <wmtp/plugin.hpp>

#include "../shared/targets.hpp"

namespace {

using wmtp::Tensor;
using wmtp::Weights;

class Shuffled : public wmtp::Wrapper {
 public:
  wmtp::Needs needs() const override { return targets::with_whole_sequences(inner().needs()); }

  Weights weigh(wmtp::HeadStep& step) override { return permuted(inner().weigh(step), step, step); }
  Weights weigh(wmtp::BatchStep& step) override { return permuted(inner().weigh(step), step, step); }

 private:
  static Weights permuted(Weights weights, wmtp::TokenStep& step, wmtp::WholeBatch& batch) {
    if (weights.meaning == Weights::Meaning::uniform) return weights;
    // A stream that no inner weighting uses: sorting by the numbers that produced the weights would sort the weights.
    Tensor valid = step.valid(), numbers = batch.uniform(0x73687566);
    if (weights.meaning == Weights::Meaning::by_target) {
      if (step.head() == 0) {
        valid = valid.select(-1, 0);
        numbers = numbers.select(-1, 0);
      }
      valid = targets::at_targets(valid, step.offset(std::max<int64_t>(step.head(), 1)));
    }
    weights.values = permuted(weights.values, valid, numbers);
    return weights;
  }

  /// All [B,S] or [B,S,H]; dimension 1 is the sequence. Invalid elements stay in place.
  static Tensor permuted(const Tensor& values, const Tensor& valid, const Tensor& numbers) {
    const Tensor by_chance = order(at::where(valid, numbers, 2));  // the numbers are below 1
    return values.scatter(1, order(valid.logical_not().to(at::kFloat)), values.gather(1, by_chance));
  }
  /// Ascending along the sequence; equal keys keep their order.
  static Tensor order(const Tensor& keys) { return std::get<1>(at::sort(keys, std::optional<bool>(true), 1, false)); }
};

}  // namespace

WMTP_PIPELINE(Shuffled, "shuffled", "1.0", "another weighting's weights, assigned to random tokens: a control")
