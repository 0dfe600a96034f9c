// A hand-made Step for a single plugin: the test provides the signals that it reads, and the contributions of other
// ranks to its collective calls.
#pragma once

#include <ATen/ATen.h>

#include <map>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#include <wmtp/plugin.hpp>

#include "plugins/torch/signals.hpp"

namespace wmtp::test {

/// During its lifetime, reads on the host belong to the test's step, not to the plugin.
class OwnRead {
 public:
  OwnRead() { ++depth_; }
  ~OwnRead() { --depth_; }
  OwnRead(const OwnRead&) = delete;
  static bool now() { return depth_ > 0; }

 private:
  static inline thread_local int depth_ = 0;
};

/// torch.quantile(values[valid], q) with linear interpolation, written out: sort, locate, interpolate.
inline Tensor quantile_by_hand(const Tensor& values, const Tensor& valid, double q) {
  const OwnRead own;
  const Tensor sorted = std::get<0>(at::sort(values.masked_select(valid)));
  if (sorted.numel() == 0) return at::full({}, std::numeric_limits<double>::quiet_NaN(), at::kFloat);
  const double place = q * double(sorted.numel() - 1);
  const auto below = int64_t(std::floor(place));
  const int64_t above = std::min(below + 1, sorted.numel() - 1);
  const double share = place - double(below);
  return at::lerp(sorted[below], sorted[above], share);
}

/// A step of every moment; `weigh` below selects the moment by the shape of `valid`.
class FakeStep final : public HeadStep, public BatchStep, public ValueStep, public Collectives {
 public:
  /// All signals have the shape of `valid`.
  explicit FakeStep(Tensor valid) : valid_(std::move(valid)) {}

  std::map<std::string, Tensor> signals;                     ///< "policy.loss", "references.NAME.loss"
  std::map<std::string, std::pair<double, double>> metrics;  ///< sum, count
  std::pair<Tensor, Tensor> other_rank;                      ///< its values and mask, for quantile
  std::vector<Tensor> other_sums;                            ///< its contributions to the first, second, … sum
  std::map<std::string, Tensor> pipeline_state;              ///< the plugin's state
  int num_collectives = 0;
  int64_t head_in_hand = 1;
  int64_t stride = 1;  ///< between the heads' offsets
  int64_t step = 1, steps = 1;

  Batch batch_in_hand;

  const Batch& batch() const override { return batch_in_hand; }
  Collectives& collectives() override { return *this; }
  int64_t number() const override { return step; }
  int64_t total() const override { return steps; }
  int64_t head() const override { return head_in_hand; }
  int64_t heads() const override { return 4; }
  int64_t offset(int64_t head) const override { return 1 + stride * (head - 1); }
  int64_t vocab_size() const override { return 16; }
  Tensor get(Signal signal) override { return read(to_text(signal)); }
  Tensor get(const ReferenceSignal& signal) override { return read(to_text(signal)); }
  Tensor value(const ValueSignal& value) override { return read(to_text(value)); }
  Tensor leaf(const ValueSignal& value) override { return read(to_text(value)).requires_grad_(true); }
  Tensor valid() override { return valid_; }
  /// As if this micro-batch were the whole step; the count of a single head is used for all heads.
  Tensor counts() override {
    const Tensor valid = valid_.to(at::kDouble);
    return valid.dim() == 3 ? valid.flatten(0, 1).sum(0) : valid.sum().expand({heads()});
  }
  Tensor answer_tokens() override { return batch_in_hand.kind.eq(2).sum().to(at::kDouble); }
  Tensor pairs() override { return batch_in_hand.partner.ge(0).sum().to(at::kDouble) / 2; }
  Tensor uniform(int64_t stream) override {
    at::manual_seed(uint64_t(1000 + stream));
    return at::rand(valid_.sizes());
  }
  Tensor& state(const std::string& name, const Tensor& first) override {
    return pipeline_state.try_emplace(name, first.clone()).first->second;
  }
  void metric(const std::string& name, const Tensor& sum, const Tensor& count) override {
    const OwnRead own;
    metrics[name].first += sum.item<double>();
    metrics[name].second += count.item<double>();
  }

  Tensor sum(const Tensor& values) override {
    ++num_collectives;
    return sums_asked_ < other_sums.size() ? values + other_sums[sums_asked_++] : values.clone();
  }
  Tensor quantile(const Tensor& values, const Tensor& valid, double q) override {
    ++num_collectives;
    if (!other_rank.first.defined()) return quantile_by_hand(values, valid, q);
    return quantile_by_hand(at::cat({values.flatten(), other_rank.first.flatten()}),
                            at::cat({valid.flatten(), other_rank.second.flatten()}), q);
  }
  Tensor quantile_here(const Tensor& values, const Tensor& valid, double q) override {
    return quantile_by_hand(values, valid, q);
  }

 private:
  Tensor read(const std::string& name) const {
    const auto found = signals.find(name);
    if (found == signals.end()) throw std::logic_error("reads " + name + " without a need");
    return found->second;
  }

  Tensor valid_;
  size_t sums_asked_ = 0;
};

inline Weights weigh(Weighting& weighting, FakeStep& step) {
  if (step.valid().dim() == 3) return weighting.weigh(static_cast<BatchStep&>(step));
  if (step.valid().dim() == 2) return weighting.weigh(static_cast<HeadStep&>(step));
  return weighting.weigh(static_cast<TokenStep&>(static_cast<HeadStep&>(step)));
}

/// Rows of answers for pipelines that read values: one letter per position ('p' prompt, 'a' answer, '.' padding), and
/// whether each row is right (1 yes, 0 no, -1 unknown).
inline Batch answer_batch(const std::vector<std::string>& rows, const std::vector<int64_t>& correct) {
  Batch batch;
  const auto B = int64_t(rows.size()), S = int64_t(rows.at(0).size());
  batch.kind = at::zeros({B, S}, at::kByte);
  for (int64_t b = 0; b < B; ++b)
    for (int64_t s = 0; s < S; ++s) {
      const char letter = rows[size_t(b)].at(size_t(s));
      batch.kind[b][s] = letter == 'a' ? 2 : letter == 'p' ? 1 : 0;
    }
  batch.tokens = at::zeros({B, S}, at::kLong);
  batch.sequence = at::arange(B, at::kLong);
  batch.correct = at::tensor(correct, at::kLong);
  batch.partner = at::full({B}, -1, at::kLong);
  return batch;
}

}  // namespace wmtp::test
