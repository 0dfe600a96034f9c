// Model FLOPs utilization: the operations that a training step needs, relative to what plain matrix multiplication
// achieves on this machine in the same time.
//
// Counted as in PaLM (Chowdhery et al. 2022, arXiv 2204.02311, appendix B), for comparison with other trainers. Each
// matrix: per element and token 2 operations forward, 2 for the gradient of its input, 2 for its own gradient if it
// trains. Attention: 12 * heads * head_dim * length of its document per block and token, without a discount for the
// causal mask; with a sliding window, at most the window in place of the length. Not counted: recomputation, a
// weighting's extra pass, frozen models, the embedding. The output layer counts once per head.
#pragma once

#include <functional>

#include "shard/sharded_model.hpp"

namespace wmtp {

/// Floating-point operations of training steps.
struct StepOperations {
  double per_token = 0, per_key = 0;
  /// `keys`: sum over tokens of the length of their document (MicroBatch::attended_keys).
  double operations(int64_t tokens, int64_t keys) const { return per_token * double(tokens) + per_key * double(keys); }
};

StepOperations step_operations(const ShardedModel& model);

/// Floating-point operations per second of a plain multiplication [rows, dim] x [dim, ffn_dim] on this rank's device,
/// with this rank's threads, in the model's compute dtype, by best_rate.
/// [all ranks at the same time, so that they share the machine as in a step]
double multiplication_rate(const ShardedModel& model, int64_t rows);

/// The peak rate of one rank's device in operations per second: [parallel] peak_tflops, or as stated by the vendor; 0
/// if unknown, as on a CPU.
double peak_rate(const ParallelConfig& parallel, const at::Device& device);

/// Speed of steps relative to plain multiplication, whose rate is measured after the first step. If the machine is busy
/// at that moment the rate is too low, so it is measured again after a step that was faster, up to `max_measurements`
/// times; the best rate counts.
class Utilization {
 public:
  static constexpr int max_measurements = 8;

  /// `rate`: measures multiplication_rate on this rank; assumed to be equal on all `ranks`.
  Utilization(int ranks, std::function<double()> rate) : ranks_(ranks), rate_(std::move(rate)) {}

  /// The share of one step of so many operations on all ranks. The first call measures the rate. [all ranks at the same
  /// time]
  double share(double operations, double seconds);
  /// A step's share of `rate` per rank.
  double share_at_rate(double rate, double operations, double seconds) const;
  /// Whether the last share shows that the rate is too low; if so, all ranks call measure() together.
  bool doubted() const { return doubted_; }
  void measure();

 private:
  int ranks_;
  std::function<double()> rate_;
  double best_ = 0;
  int measured_ = 0;
  bool doubted_ = false;
};

}  // namespace wmtp
