// How well a step uses the machine: the multiply-adds that the model itself asks for, against those that bare matrix
// multiplication would do in the same time.
//
// Counted as in PaLM (Chowdhery et al. 2022, arXiv 2204.02311, appendix B), so that figures compare with other
// trainers': for each matrix 2 operations an element and token forward, 2 for the gradient of its input, 2 for its own
// where it trains; attention 12 * dim * positions a block and token, without taking off what causality leaves out;
// nothing for what is run again, for a pass that a weighting wants, for frozen models, for the embedding. The output
// layer counts once for each head.
#pragma once

#include <functional>

#include "engine/shard/sharded_model.hpp"

namespace wmtp {

/// Floating-point operations of a training step for each token, in sequences of `positions` tokens. `lowest_block`:
/// the first trunk block into which gradients go (MicroStep::lowest_block).
double operations_per_token(const ShardedModel& model, int64_t lowest_block, int64_t positions);

/// The best of a few rounds, in about 40 ms: `launch` starts `operations`, and may return before they are done, `wait`
/// returns when all are. A round launches as often as it takes to last much longer than a wait, so that a device, which
/// takes launches faster than it computes, is measured and not the way to it.
double best_rate(double operations, const std::function<void()>& launch, const std::function<void()>& wait);

/// Floating-point operations a second of a bare multiplication [rows, dim] x [dim, ffn_dim] on this rank's device with
/// this rank's threads, in the dtype that the model computes in, by best_rate.
/// [all ranks at once, so that they share the machine as they do in a step]
double multiplication_rate(const ShardedModel& model, int64_t rows);

/// Steps as shares of bare multiplication. Its rate is measured after the first step; a machine that is busy in that
/// moment gives a low one, beside which every later step looks fast. So it is measured again after a step that was
/// faster than it, up to `most_measurements` times, and the best of all counts from then on.
class Utilization {
 public:
  static constexpr int most_measurements = 8;

  /// `rate`: measures multiplication_rate of this rank; all `ranks` have the same.
  Utilization(double operations_per_token, int ranks, std::function<double()> rate)
      : operations_per_token_(operations_per_token), ranks_(ranks), rate_(std::move(rate)) {}

  /// Of a step of all ranks. Measures before the first one. [all ranks at once]
  double share(int64_t tokens, double seconds);
  /// Whether the last share shows that the rate is too low: then all ranks measure() together.
  bool doubted() const { return doubted_; }
  void measure();

 private:
  double operations_per_token_;
  int ranks_;
  std::function<double()> rate_;
  double best_ = 0;
  int measured_ = 0;
  bool doubted_ = false;
};

}  // namespace wmtp
