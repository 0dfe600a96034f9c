// Causal attention: every position mixes the values of those up to itself, by the softmax of its query's products with
// their keys. B batch, S positions, H heads of queries, K heads of keys and values (H a multiple of K), D features.
#pragma once

#include <ATen/ATen.h>

namespace wmtp {

/// query [B,S,H,D], key and value [B,S,K,D], one dtype -> [B,S,H*D]:
/// out[i] = sum_{j<=i} softmax_j(query[i] . key[j] / sqrt(D)) value[j]; head h of the queries reads head h / (H/K).
///
/// On the CPU the scores exist for a few heads and queries at a time, are computed again in backward, and are as exact
/// as fp32 ones in bf16 as well: a second product gives what rounding took from the first.
at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);

}  // namespace wmtp
