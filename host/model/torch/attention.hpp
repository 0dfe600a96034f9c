// Causal attention with grouped queries. B batch, S positions, H query heads, K key and value heads (H a multiple of
// K), D features.
#pragma once

#include <ATen/ATen.h>

namespace wmtp {

/// Where the documents of B sequences begin and end, on the device of the sequences. Undefined: each sequence is one.
struct Documents {
  at::Tensor begins;  ///< [B,S] int32, contiguous: of each position, the first one of its document
  /// [n+1] int32: 0, then the ends of all n documents in [B*S], for a CUDA device. Adjacent positions of padding, which
  /// nobody reads, are one document.
  at::Tensor ends;

  bool defined() const { return begins.defined(); }
};

/// query [B,S,H,D], key and value [B,S,K,D], one dtype -> [B,S,H*D]:
/// out[i] = sum_j softmax_j(query[i] . key[j] / sqrt(D)) value[j], over j <= i, or with a window over i - window < j <=
/// i, of the document of i; query head h reads key head h / (H/K).
///
/// On the CPU, scores exist for only a few heads and queries at a time, are recomputed in backward, and have fp32
/// accuracy even for bf16 inputs.
at::Tensor causal_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t window = 0,
                            const Documents& documents = {});

/// How many documents `positions` can hold before a CUDA device masks attention instead of computing each document by
/// itself: flash attention's gradients take 128 rows of fp32 sums for each, however short it is.
int64_t most_separate_documents(int64_t positions);

}  // namespace wmtp
