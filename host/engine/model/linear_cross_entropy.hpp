// The weighted linear-cross-entropy: hidden x output weight -> losses and gradients, in chunks of tokens, so that no
// more than chunk x vocabulary logits ever exist.
//
// For a chunk of n tokens: logits [n,V] = hidden W^T; loss = logsumexp(logits) - logits[target]; the chunk's logits
// become their own gradient in place, coefficient * (softmax - onehot), which gives d hidden and adds to d W. Tokens
// whose coefficient is zero have no gradient, and none is computed for them.
#pragma once

#include <ATen/ATen.h>

#include <functional>

#include "core/model/chunks.hpp"
#include "engine/model/weight_store.hpp"

namespace wmtp {

/// What is known of tokens besides their losses; only what is asked for is computed.
struct ScoreRequest {
  bool entropies = false, hits = false;
};

/// Of N tokens, each [N] fp32, without gradient; undefined where not asked for.
struct Scores {
  at::Tensor losses;
  at::Tensor entropies;  ///< of the softmax, in nats: logsumexp - sum softmax * logits
  at::Tensor hits;       ///< 1 where no logit is larger than the target's, else 0
};

/// What scores() leaves for gradients() of the same tokens and weight: the log-sum-exps, and the logits where all
/// tokens fit in one chunk. So a weighting that needs the losses first pays no product and no sum twice.
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
  /// The same, for gradients() of some of these tokens later on. At most one ScoredChunk may live at a time, or there
  /// is more than one chunk of logits.
  Scores scores(const at::Tensor& hidden, const at::Tensor& targets, ScoreRequest request, ScoredChunk& kept) const;

  /// Gives the coefficients [n] fp32 (weight over denominator) of tokens begin … begin+n-1, knowing their scores.
  using Coefficients = std::function<at::Tensor(const Scores& chunk, int64_t begin)>;
  struct Result {
    Scores scores;
    at::Tensor d_hidden;  ///< [N,D], of the sum over tokens of coefficient * loss
  };
  /// Scores and gradients in one pass. `sparse`: coefficients may be zero for many tokens, so look for them.
  Result one_pass(const at::Tensor& hidden, const at::Tensor& targets, const Coefficients& coefficients, bool sparse,
                  ScoreRequest request = {}) const;

  /// Gradients alone, [N,D], only for tokens whose coefficient [N] is not zero.
  at::Tensor gradients(const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& coefficients) const;
  /// The same from what scores() left, which is used up.
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
