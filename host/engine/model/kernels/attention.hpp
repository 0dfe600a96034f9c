// Causal attention of one key head, fused on the CPU: scores, softmax and products with the values stay in the cache, in
// fp32 for any tensor dtype; only a log-sum-exp per query is stored.
//
// Compiled once for each instruction set (attention_impl.hpp) and selected with the row kernels. Plain pointers, no
// threads: the caller gives each thread different heads or queries.
#pragma once

#include <cstdint>

#include "engine/model/kernels/rows.hpp"

namespace wmtp::kernels {

/// One key and value head of one sequence, and the R query heads that read it; D features each. Pointers are to this
/// head's first position; a query's R heads are adjacent.
struct AttentionHead {
  int64_t R, D;
  int64_t query_stride, key_stride;  ///< elements from one position to the next
  int64_t begin, end;                ///< the queries to compute; they read keys before `end`
  int64_t positions;                 ///< log_sums [R,positions]
  int64_t window = 0;                ///< the last keys up to its own that a query reads; 0: all

  /// The first key that query `i` reads.
  int64_t first_key(int64_t i) const { return window == 0 || i < window ? 0 : i - window + 1; }
};

template <class T>
struct Attention {
  /// out, laid out like query: sum over j of softmax_j(q[i] . k[j] / sqrt(D)) v[j], j from first_key(i) to i. scratch: attention_scratch
  /// (core/model/chunks.hpp) floats, aligned to 64 bytes.
  void (*forward)(const AttentionHead& head, const T* query, const T* key, const T* value, T* out, float* log_sums,
                  float* scratch);
  /// dq, laid out like query; dk and dv (fp32, laid out like key) are these queries' contributions, up to key `end`.
  void (*backward)(const AttentionHead& head, const T* query, const T* key, const T* value, const T* d_out,
                   const float* log_sums, T* dq, float* dk, float* dv, float* scratch);
};

template <class T>
const Attention<T>& attention(Isa isa);
/// The fastest instruction set of this processor.
template <class T>
const Attention<T>& attention();

}  // namespace wmtp::kernels
