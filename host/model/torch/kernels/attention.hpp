// Causal attention of one key head, fused on the CPU: scores, softmax and products with the values stay in the cache,
// in fp32 for any tensor dtype (in AMX tiles, probs are rounded to bf16); only one log-sum-exp per query is stored.
//
// Compiled once per instruction set (attention_impl.hpp) and selected together with the row kernels. Plain pointers, no
// threads: the caller assigns different heads or queries to each thread.
#pragma once

#include <cstdint>

#include "model/torch/kernels/rows.hpp"

namespace wmtp::kernels {

/// One key and value head of one sequence, and the R query heads that read it; D features each. Pointers are to this
/// head's first position; the R heads of a query are adjacent.
struct AttentionHead {
  int64_t R, D;
  int64_t query_stride, key_stride;  ///< elements from one position to the next
  int64_t begin, end;                ///< range of queries to compute; they read keys before `end`
  int64_t positions;                 ///< log_sums [R,positions]
  int64_t window = 0;                ///< the number of last keys, including its own, that a query reads; 0: all
  /// [positions] the first position of each query's document, ascending; null: the sequence is one document.
  const int32_t* documents = nullptr;

  /// The first key that query `i` reads.
  int64_t first_key(int64_t i) const {
    const int64_t in_window = window == 0 || i < window ? 0 : i - window + 1;
    return documents && documents[i] > in_window ? documents[i] : in_window;
  }
};

template <class T>
struct Attention {
  /// out, laid out like query: sum over j of softmax_j(q[i] . k[j] / sqrt(D)) v[j], j from first_key(i) to i. scratch:
  /// attention_scratch (model/chunks.hpp) floats, aligned to 64 bytes.
  void (*forward)(const AttentionHead& head, const T* query, const T* key, const T* value, T* out, float* log_sums,
                  float* scratch);
  /// dq, laid out like query; dk and dv (fp32, laid out like key) are these queries' contributions, up to key `end`.
  void (*backward)(const AttentionHead& head, const T* query, const T* key, const T* value, const T* d_out,
                   const float* log_sums, T* dq, float* dk, float* dv, float* scratch);
};

template <class T>
const Attention<T>& attention(Isa isa);
/// For best_isa().
template <class T>
const Attention<T>& attention();

}  // namespace wmtp::kernels
