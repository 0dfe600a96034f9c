// Causal attention with grouped queries. B batch, S positions, H query heads, K key and value heads (H a multiple of
// K), D features.
#pragma once

#include <ATen/ATen.h>

namespace wmtp {

/// query [B,S,H,D], key and value [B,S,K,D], one dtype -> [B,S,H*D]:
/// out[i] = sum_j softmax_j(query[i] . key[j] / sqrt(D)) value[j], over j <= i, or with a window over i - window < j <=
/// i; query head h reads key head h / (H/K). `documents` [B,S] int32, contiguous, on the same device: the first
/// position of each position's document, before which no key is read; undefined: each sequence is one document.
///
/// On the CPU, scores exist for only a few heads and queries at a time, are recomputed in backward, and have fp32
/// accuracy even for bf16 inputs.
at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t window = 0,
                            const at::Tensor& documents = {});

}  // namespace wmtp
