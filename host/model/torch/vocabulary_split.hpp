// VocabularySplit: T ranks that divide the rows of the output layer (Shoeybi et al. 2019, arXiv 1909.08053, section 3),
// and so the columns of all logits. Each has tokens of its own. To score n tokens of each rank,
//
//   1. every rank gathers the hidden states and targets of all T n tokens and computes its columns of their logits;
//   2. it sends each rank the parts of the scores of that rank's tokens: the log-sum-exp of its columns, the loss if
//      the target is one of them, the entropy, the highest logit; for ranks, all ranks first exchange the targets'
//      logits, which each compares with its columns; for the mass of the k likeliest tokens, its k highest logits,
//      and for the likeliest token its column;
//   3. each rank combines the T parts of its own tokens, in rank order and fp64:
//        log_sum = log sum_t exp(log_sum_t)         loss = loss of the target's rank + log_sum - log_sum_t there
//        p_t = exp(log_sum_t - log_sum)             entropy = sum_t p_t (entropy_t - log p_t)
//
// For gradients they gather the tokens' coefficients and log-sum-exps; every rank then has a part of each token's
// d hidden, and each adds up those of its own tokens, in rank order. All ranks call the same functions with the same n.
#pragma once

#include <ATen/ATen.h>

#include "model/torch/rank_exchange.hpp"
#include "model/torch/row_ops.hpp"

namespace wmtp {

class VocabularySplit {
 public:
  /// `ranks` must outlive this object.
  explicit VocabularySplit(const RankExchange& ranks) : ranks_(ranks) {}
  int64_t ranks() const { return ranks_.ranks(); }

  /// [m, ...] of each rank, of which m <= n may differ -> [T n, ...] with zeros after each rank's own. [all T ranks,
  /// collective]
  at::Tensor gathered(const at::Tensor& own, int64_t n) const;
  /// `targets` as columns of this rank's `width` ones; outside of [0, width) if they are another rank's.
  at::Tensor as_columns(const at::Tensor& targets, int64_t width) const { return targets - ranks_.rank() * width; }
  /// The scores of this rank's m tokens with these targets, from this rank's columns `logits` [T n, V/T] of all tokens,
  /// whose targets as columns are `columns` [T n]. [all T ranks, collective]
  ScoredLogits scored(const at::Tensor& logits, const at::Tensor& columns, const at::Tensor& targets,
                      ScoreRequest request) const;
  /// This rank's columns [T n, V/T] of all tokens -> all columns [m, V] of this rank's m tokens. [all T ranks,
  /// collective]
  at::Tensor of_own_rows(const at::Tensor& columns, int64_t m) const;
  /// The inverse, [m, V] -> [T n, V/T], with zeros for entries without a token. [all T ranks, collective]
  at::Tensor of_own_columns(const at::Tensor& rows, int64_t n) const;
  /// [T n, D], parts of sums -> [n, D], the sums of this rank's tokens. [all T ranks, collective]
  at::Tensor summed(const at::Tensor& parts) const;
  /// The largest of the ranks' numbers. [all T ranks, collective; waits for the device]
  int64_t largest(int64_t number, const at::Device& device) const;

 private:
  const RankExchange& ranks_;
};

}  // namespace wmtp
