// A Llama block that is given tokens in portions and keeps their keys and values, so that each token is computed once.
// The same function as Block (engine/model/block.hpp) without an adapter; row by row, so that the portions do not show.
#pragma once

#include "engine/model/block.hpp"

namespace wmtp {

class CachedBlock {
 public:
  /// Keeps the weights that `find` gives, as they are: whole, fp32, on the CPU. Room for `positions` tokens.
  CachedBlock(const ModelConfig& model, const std::string& name, const FindWeight& find, int64_t positions);

  /// x [n,D]: tokens at positions `begin` … begin+n-1, those before `begin` being known. Their keys and values are
  /// kept, in place of what was known of these positions. Returns the block's output for rows `first` … n-1,
  /// [n-first,D].
  at::Tensor run(const at::Tensor& x, int64_t begin, int64_t first, const at::Tensor& rotary);

 private:
  void keep(const at::Tensor& rows, int64_t begin, const at::Tensor& cache) const;
  at::Tensor attention(const at::Tensor& query, int64_t position) const;

  int64_t heads_, kv_heads_, head_dim_;
  double eps_;
  at::Tensor attention_norm_, ffn_norm_, wq_, wk_, wv_, wo_, w1_, w2_, w3_;
  at::Tensor bq_, bk_, bv_;   ///< undefined where there are none
  at::Tensor keys_, values_;  ///< [heads of keys, positions, head_dim]
};

}  // namespace wmtp
