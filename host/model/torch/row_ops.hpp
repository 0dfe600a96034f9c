// Operations on the rows of tensors, without gradients: with our kernels for the CPU (kernels/rows.hpp, fp32 and bf16)
// or for a CUDA device (kernels/device_rows.hpp), otherwise with ATen. Computed in fp32 for any dtype.
#pragma once

#include <ATen/ATen.h>

#include <array>
#include <utility>
#include <vector>

namespace wmtp {

struct Normed {
  at::Tensor y;      ///< as x
  at::Tensor scale;  ///< 1 / rms(x), fp32, one per row
};
/// x / rms(x) * weight over the last dimension.
Normed normed_rows(const at::Tensor& x, const at::Tensor& weight, double eps);
/// {dx, dw}, dw [width] in fp32, or undefined unless `wants_dw`.
std::pair<at::Tensor, at::Tensor> normed_rows_backward(const at::Tensor& dy, const at::Tensor& x,
                                                       const at::Tensor& weight, const at::Tensor& scale,
                                                       bool wants_dw);

/// silu(gate) * up.
at::Tensor swiglu_rows(const at::Tensor& gate, const at::Tensor& up);
/// {d_gate, d_up}.
std::pair<at::Tensor, at::Tensor> swiglu_rows_backward(const at::Tensor& dy, const at::Tensor& gate,
                                                       const at::Tensor& up);

/// Rotates pairs (2i, 2i+1) of x [B,S,H,D] by `direction` times the angles of table [S,D/2], complex64.
at::Tensor rotated(const at::Tensor& x, const at::Tensor& table, float direction);

/// Scores to compute besides the losses.
struct ScoreRequest {
  bool entropies = false, hits = false, ranks = false, margins = false;
  int64_t top_k = 0;  ///< number of tokens of Scores::top_masses; 0: not requested
  bool likeliest = false;

  /// Whether any of those by the order of all logits is requested.
  bool reads_order() const { return ranks || margins || top_k > 0 || likeliest; }
};

/// For N tokens, each [N] fp32, without gradients; undefined if not requested.
struct Scores {
  at::Tensor losses = {};
  at::Tensor entropies = {};   ///< of the softmax, in nats: logsumexp - sum softmax * logits
  at::Tensor hits = {};        ///< 1 if no logit is larger than the target's, else 0
  at::Tensor ranks = {};       ///< number of logits larger than the target's
  at::Tensor margins = {};     ///< the target's logit minus the largest of the others
  at::Tensor top_masses = {};  ///< sum of the softmax over its `top_k` largest logits
  at::Tensor likeliest = {};   ///< number of the largest logit, the first of equal ones

  std::array<at::Tensor*, 7> parts() { return {&losses, &entropies, &hits, &ranks, &margins, &top_masses, &likeliest}; }
  std::array<const at::Tensor*, 7> parts() const {
    return {&losses, &entropies, &hits, &ranks, &margins, &top_masses, &likeliest};
  }
};
Scores empty_scores(int64_t count, const at::TensorOptions& options, ScoreRequest request);

struct ScoredLogits {
  Scores scores;
  at::Tensor log_sum;  ///< log sum exp of each row, [n] fp32
};
/// Which columns of all logits a tensor has: those of `piece` may lack a row's target, whose number is then outside of
/// [0,V). Its loss is infinite, and it is no hit.
enum class Columns { all, piece };
/// logits [n,V], targets [n]. Of `piece` only losses, entropies and hits.
ScoredLogits cross_entropy(const at::Tensor& logits, const at::Tensor& targets, ScoreRequest request,
                           Columns columns = Columns::all);
/// The target's logit of each row, [n] fp32; -infinity where it is not among these columns.
at::Tensor target_logits(const at::Tensor& logits, const at::Tensor& targets, Columns columns);
/// Number of logits of each row that are larger than `than` [n], fp32.
at::Tensor count_larger(const at::Tensor& logits, const at::Tensor& than);
/// The largest logit of each row but the target's, [n] fp32. It writes into `logits`, and restores them.
at::Tensor largest_others(at::Tensor logits, const at::Tensor& targets, Columns columns);
/// The `count` largest logits of each row, or all if there are fewer, in no order: [n,count] fp32.
at::Tensor largest_logits(const at::Tensor& logits, int64_t count);
/// sum exp(largest - log_sum) of each row, at most 1: of `largest` [n,count] of logits with log_sum [n].
at::Tensor mass_of(const at::Tensor& largest, const at::Tensor& log_sum);
/// The column of the largest logit of each row, the first of equal ones, [n] fp32, which has all numbers up to 2^24.
at::Tensor largest_column(const at::Tensor& logits);
/// coefficient * (exp(logits - log_sum) - onehot(target)), in the logits' dtype; our kernels reuse their memory.
at::Tensor cross_entropy_gradient(at::Tensor logits, const at::Tensor& targets, const at::Tensor& log_sum,
                                  const at::Tensor& coefficients, Columns columns = Columns::all);

/// sum (fp32, contiguous) = value, or += value.
void accumulate(at::Tensor& sum, const at::Tensor& value, bool first);
/// Parts of a norm of `values` (fp32 on the CPU, contiguous) in fp64, one for each block of fixed size: sums of
/// |x|^order for order 1 or 2; for order 0 the largest |x|, NaN if one is NaN.
std::vector<double> norm_parts(const at::Tensor& values, int order);
/// sum [count] (fp32, contiguous) = the sum of parts [n, count] in order. It may be the first of fp32 parts.
void sum_of_parts(const at::Tensor& parts, at::Tensor& sum);

}  // namespace wmtp
