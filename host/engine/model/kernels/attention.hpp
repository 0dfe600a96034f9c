// Causal attention of one head of keys, fused on the CPU: scores, shares and their products with the values stay in the
// cache, in fp32 whatever the tensors' dtype, and nothing of them is kept but a log-sum-exp for each query.
//
// Compiled once for each instruction set (attention_impl.hpp) and chosen with the row kernels. Plain pointers, no
// threads of their own: the caller gives each thread other heads or other queries.
#pragma once

#include <cstdint>

#include "engine/model/kernels/rows.hpp"

namespace wmtp::kernels {

/// One head of keys and values in one sequence, and the R heads of queries that read it; D features each. Tensors begin
/// at this head's first position; a query's R heads lie beside each other.
struct AttentionHead {
  int64_t R, D;
  int64_t query_stride, key_stride;  ///< elements from one position to the next
  int64_t begin, end;                ///< the queries that are wanted; they read the keys before their own end
  int64_t positions;                 ///< log_sums [R,positions]
};

template <class T>
struct Attention {
  /// out, laid out as query: sum over j <= i of softmax_j(q[i] . k[j] / sqrt(D)) v[j]. scratch: attention_scratch of
  /// core/model/chunks.hpp floats, aligned to 64 bytes.
  void (*forward)(const AttentionHead& head, const T* query, const T* key, const T* value, T* out, float* log_sums,
                  float* scratch);
  /// dq, laid out as query; dk and dv (fp32, laid out as key) are what those queries give, written up to key `end`.
  void (*backward)(const AttentionHead& head, const T* query, const T* key, const T* value, const T* d_out,
                   const float* log_sums, T* dq, float* dk, float* dv, float* scratch);
};

template <class T>
const Attention<T>& attention(Isa isa);
/// The fastest set that this processor runs.
template <class T>
const Attention<T>& attention();

}  // namespace wmtp::kernels
