// The weighted linear-cross-entropy: hidden x output weight -> losses and gradients, in chunks of tokens, so that no
// more than chunk x vocabulary logits ever exist.
//
// For a chunk of n tokens: logits [n,V] = hidden W^T; loss = logsumexp(logits) - logits[target]; the chunk's logits
// become their own gradient in place, coefficient * (softmax - onehot), which gives d hidden and adds to d W. Tokens
// whose coefficient is zero have no gradient, and none is computed for them.
#pragma once

#include <ATen/ATen.h>

#include <functional>

#include "model/weight_store.hpp"

namespace wmtp {

/// Tokens of a chunk: its logits take 16 MB in fp32 whatever the vocabulary, within reason.
int64_t chunk_tokens(int64_t vocab_size);

class LinearCrossEntropy {
 public:
  LinearCrossEntropy(WeightHandle output, int64_t chunk_tokens) : output_(output), chunk_(chunk_tokens) {}

  /// [N] fp32 losses of hidden [N,D] at targets [N]; no gradient.
  at::Tensor losses(const at::Tensor& hidden, const at::Tensor& targets) const;

  /// Gives the coefficients [n] fp32 (weight over denominator) of tokens begin … begin+n-1, knowing their losses [n].
  using Coefficients = std::function<at::Tensor(const at::Tensor& losses, int64_t begin)>;
  struct Result {
    at::Tensor losses;    ///< [N] fp32
    at::Tensor d_hidden;  ///< [N,D], of the sum over tokens of coefficient * loss
  };
  /// Losses and gradients in one pass. `sparse`: coefficients may be zero for many tokens, so look for them.
  Result one_pass(const at::Tensor& hidden, const at::Tensor& targets, const Coefficients& coefficients,
                  bool sparse) const;

  /// Gradients alone, only for tokens whose coefficient [N] is not zero.
  at::Tensor gradients(const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& coefficients) const;

 private:
  WeightHandle output_;
  int64_t chunk_;
};

}  // namespace wmtp
