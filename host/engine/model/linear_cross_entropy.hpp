// The weighted linear cross entropy: hidden x output weight -> losses and gradients, in chunks of tokens, so that at
// most chunk x vocabulary logits exist at a time.
//
// For a chunk of n tokens: logits [n,V] = hidden W^T; loss = logsumexp(logits) - logits[target]; the chunk's logits
// are overwritten with their gradient, coefficient * (softmax - onehot), which gives d hidden and adds to d W. No
// gradient is computed for tokens whose coefficient is zero.
#pragma once

#include <ATen/ATen.h>

#include <functional>

#include "core/model/chunks.hpp"
#include "engine/model/row_ops.hpp"
#include "engine/model/weight_store.hpp"

namespace wmtp {

/// Kept by scores() for gradients() of the same tokens and weight: the log-sum-exps, and the logits if all tokens fit in
/// one chunk. So no product and no sum is computed twice for a weighting that needs the losses first.
class ScoredChunk {
 private:
  friend class LinearCrossEntropy;
  at::Tensor log_sums_;  ///< [N] fp32
  at::Tensor logits_;    ///< [N,V], or undefined
};

class LinearCrossEntropy {
 public:
  LinearCrossEntropy(WeightHandle output, int64_t chunk_tokens) : output_(output), chunk_(chunk_tokens) {}

  /// Scores of hidden [N,D] at targets [N]; no gradient.
  Scores scores(const at::Tensor& hidden, const at::Tensor& targets, ScoreRequest request = {}) const;
  /// The same, for later gradients() of some of these tokens. At most one ScoredChunk may exist at a time, to hold only
  /// one chunk of logits.
  Scores scores(const at::Tensor& hidden, const at::Tensor& targets, ScoreRequest request, ScoredChunk& kept) const;

  /// Returns the coefficients [n] fp32 (weight over denominator) of tokens begin … begin+n-1, given their scores.
  using Coefficients = std::function<at::Tensor(const Scores& chunk, int64_t begin)>;
  struct Result {
    Scores scores;
    at::Tensor d_hidden;  ///< [N,D], of the sum over tokens of coefficient * loss
  };
  /// Scores and gradients in one pass. `sparse`: many coefficients may be zero; find and skip these tokens.
  Result one_pass(const at::Tensor& hidden, const at::Tensor& targets, const Coefficients& coefficients, bool sparse,
                  ScoreRequest request = {}) const;

  /// Only gradients, [N,D], of the tokens whose coefficient [N] is not zero.
  at::Tensor gradients(const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& coefficients) const;
  /// The same from the values that scores() kept, which are consumed.
  at::Tensor gradients(const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& coefficients,
                       ScoredChunk kept) const;

 private:
  struct Chunk;
  Scores score(const at::Tensor& hidden, const at::Tensor& targets, ScoreRequest request, ScoredChunk* kept) const;
  void differentiate(Chunk chunk, const at::Tensor& chosen, const at::Tensor& weight, at::Tensor d_hidden) const;

  WeightHandle output_;
  int64_t chunk_;
};

}  // namespace wmtp
