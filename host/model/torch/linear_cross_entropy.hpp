// The weighted linear cross entropy: hidden x output weight -> losses and gradients, in chunks of tokens, so that at
// most chunk x vocabulary logits exist at a time.
//
// For a chunk of n tokens: logits [n,V] = hidden W^T; loss = logsumexp(logits) - logits[target]; the chunk's logits are
// overwritten with their gradient, coefficient * (softmax - onehot), from which d hidden follows and which is
// accumulated into d W. Tokens with coefficient zero are skipped.
//
// With a VocabularySplit the output weight is this rank's piece of it, and a chunk is tokens of all T ranks. Arguments
// and results are of this rank's tokens all the same.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <optional>

#include "model/chunks.hpp"
#include "model/torch/row_ops.hpp"
#include "model/torch/vocabulary_split.hpp"
#include "model/torch/weight_store.hpp"

namespace wmtp {

/// Kept by scores() for gradients() of the same tokens and weight: the log-sum-exps, and the logits if all tokens fit
/// into one chunk. Avoids computing products and sums twice for a weighting that needs the losses first.
class ScoredChunk {
 private:
  friend class LinearCrossEntropy;
  at::Tensor log_sums_;          ///< [N] fp32
  at::Tensor logits_;            ///< [N,V], or undefined
  at::Tensor hidden_, targets_;  ///< what the logits are of, with a VocabularySplit
  int64_t most_ = 0;
};

/// The rows `index` [N] of `all` [M,...], and rows of zeros after them up to a multiple of 16. oneDNN prepares products
/// for each new number of rows: this takes a tenth of the time of a product of 600 rows with 8,192 x 256 in bf16, and
/// up to a megabyte that it keeps. The number of valid or selected tokens changes from step to step.
at::Tensor rows_with_padding(const at::Tensor& all, const at::Tensor& index);

/// `hidden` may have rows of zeros after those of the tokens (rows_with_padding), if there is no VocabularySplit. They
/// take part in products only: N is the number of targets.
class LinearCrossEntropy {
 public:
  /// `split`: the ranks that have the other pieces of the output weight, if it is cut; must outlive this object. They
  /// call the same functions. [then all are collective]
  LinearCrossEntropy(WeightHandle output, int64_t chunk_tokens, const RankExchange* split = nullptr)
      : output_(output), chunk_(chunk_tokens) {
    if (split) split_.emplace(*split);
  }

  /// Scores of hidden [N,D] at targets [N]; no gradient. `most`: with a VocabularySplit a number that is at least every
  /// rank's N, and the same on all of them; otherwise unused.
  Scores scores(const at::Tensor& hidden, const at::Tensor& targets, ScoreRequest request = {}, int64_t most = 0) const;
  /// The same, for later gradients() of some of these tokens. At most one ScoredChunk may exist at a time, so that only
  /// one chunk of logits is held.
  Scores scores(const at::Tensor& hidden, const at::Tensor& targets, ScoreRequest request, ScoredChunk& kept,
                int64_t most = 0) const;

  /// Returns the coefficients [n] fp32 (weight over denominator) of tokens begin … begin+n-1, given their scores.
  using Coefficients = std::function<at::Tensor(const Scores& chunk, int64_t begin)>;
  struct Result {
    Scores scores;
    at::Tensor d_hidden;  ///< [N,D], of the sum over tokens of coefficient * loss
  };
  /// What another loss adds to the gradient of the logits of m tokens from `begin`, [m,V] fp32 from logits [m,V]. `n`:
  /// with a VocabularySplit at least every rank's m, and the same on all of them. With an addition no token is skipped.
  using Addition = std::function<at::Tensor(const at::Tensor& logits, int64_t begin, int64_t n)>;
  /// Scores and gradients in one pass. `sparse`: many coefficients may be zero; find and skip their tokens.
  /// `nonzero_share`: of the tokens that are left then, in a step without values.
  Result one_pass(const at::Tensor& hidden, const at::Tensor& targets, const Coefficients& coefficients, bool sparse,
                  ScoreRequest request = {}, int64_t most = 0, const Addition& addition = {},
                  double nonzero_share = 1) const;

  /// Gradients only, [N,D], of the tokens with nonzero coefficient [N], from the values kept by scores(), which are
  /// consumed. `at_most`: number of these tokens for which products are computed; further ones are left out. Without it
  /// the host waits for a CUDA device to count them. With a VocabularySplit it always does, since ranks agree on the
  /// number; `at_most` is then for steps without values.
  at::Tensor gradients(const at::Tensor& hidden, const at::Tensor& targets, const at::Tensor& coefficients,
                       ScoredChunk kept = {}, std::optional<int64_t> at_most = {}, const Addition& addition = {}) const;

  /// hidden [m,D] -> logits [m,V], without gradients. `n`: as of Addition.
  at::Tensor logits(const at::Tensor& hidden, int64_t n) const;

 private:
  struct Chunk;
  struct Chosen;
  Chosen nonzero(const at::Tensor& coefficients, std::optional<int64_t> at_most = {}) const;
  Chosen found(const at::Tensor& coefficients, double nonzero_share) const;
  Scores score(const at::Tensor& hidden, const at::Tensor& targets, ScoreRequest request, ScoredChunk* kept,
               int64_t most) const;
  /// Calls on_chunk(begin, n, own) for chunks of the tokens, of which this rank has `count` and another one at most
  /// `most`: n tokens of each rank from `begin`, of which this rank has `own`.
  template <class OnChunk>
  void for_each_chunk(int64_t count, int64_t most, bool is_meta, OnChunk on_chunk) const;
  static at::Tensor chunk_rows(const at::Tensor& all, int64_t begin, int64_t own, int64_t count);
  Chunk chunk_of(const at::Tensor& hidden, const at::Tensor& targets, int64_t n, const at::Tensor& weight) const;
  ScoredLogits scored(const Chunk& chunk, const at::Tensor& targets, ScoreRequest request) const;
  void complete(Chunk& chunk, at::Tensor log_sum, at::Tensor coefficient, int64_t n) const;
  void add(Chunk& chunk, const Addition& addition, int64_t begin, int64_t own, int64_t n) const;
  void differentiate_here(Chunk chunk, const Chosen& chosen, const at::Tensor& weight, at::Tensor d_hidden) const;
  void differentiate(Chunk chunk, const Chosen& chosen, const at::Tensor& weight, at::Tensor d_hidden) const;

  WeightHandle output_;
  int64_t chunk_;
  std::optional<VocabularySplit> split_;
};

}  // namespace wmtp
