// Chunk sizes for the largest temporaries: logits and attention blocks. Shared by the engine and `plan`.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/round_up.hpp"

namespace wmtp {

/// Tokens per chunk: its logits take 16 MB in fp32 up to a vocabulary of 16,384. At least 256 tokens, because each
/// chunk adds to the full weight gradient: 131 tokens of 32,000 x 512 took 1.2 times as long in bf16. Twice as many if
/// losses are needed first: tokens that fit into one chunk are multiplied once (rho-1 with 1,020 tokens of 8,192 x 256
/// in one chunk instead of two: 1.1 times the tokens per second).
/// Always 4,096 on a CUDA device: fewer rows leave parts of it idle.
inline int64_t chunk_tokens(int64_t vocab_size, bool on_cuda, bool losses_first = false) {
  if (on_cuda) return 4096;
  return std::clamp<int64_t>((int64_t{losses_first ? 8 : 4} << 20) / vocab_size, 256, 4096);
}

/// Queries per attention block: a multiple of the tile heights (6, 12).
inline constexpr int64_t queries_per_block = 48;
inline int64_t num_query_blocks(int64_t S) { return (S + queries_per_block - 1) / queries_per_block; }
/// Keys stored together, transposed.
inline constexpr int64_t keys_per_panel = 64;
/// Floats of the widest vector register; features are padded to a multiple of it.
inline constexpr int64_t widest_vector = 16;

/// Floats of scratch memory that the kernel for tiles needs (model/torch/kernels/attention_tiles.hpp).
inline int64_t tiled_attention_scratch(int64_t S, int64_t D, bool backward) {
  const int64_t width = round_up(S, 32);
  return backward ? 7 * width * D / 2 + 112 * (width + D) : width * D + 48 * (width + D);
}

/// Floats of scratch memory that a thread needs for one head with D features over S positions
/// (model/torch/kernels/attention_impl.hpp): keys and values, and a block's queries, scores and results; in backward
/// also the gradient of each.
inline int64_t attention_scratch(int64_t S, int64_t D, bool backward) {
  const int64_t padded = round_up(D, widest_vector);
  const int64_t width = round_up(S, keys_per_panel);
  const int64_t block_floats = queries_per_block * ((backward ? 3 : 2) * padded + (backward ? 2 : 1) * width);
  const int64_t vector_floats_total = (backward ? 2 : 1) * width * D + (backward ? 3 : 1) * S * padded + block_floats;
  return D % 32 == 0 ? std::max(vector_floats_total, tiled_attention_scratch(S, D, backward)) : vector_floats_total;
}

/// Each thread processes whole heads. With fewer heads than this, the queries of each head are split into parts,
/// independently of the number of threads; the contributions of the parts to a key are summed.
inline constexpr int64_t min_tasks = 16;
/// A part transposes all keys before its end: fewer queries repay that only if a thread would have no head otherwise.
inline constexpr int64_t min_blocks_per_part = 3;

/// The number of parts into which the queries of each of `heads` key heads are split, over S positions.
inline int64_t num_query_parts(int64_t heads, int64_t S) {
  return std::min((min_tasks + heads - 1) / heads, std::max<int64_t>(num_query_blocks(S) / min_blocks_per_part, 1));
}

}  // namespace wmtp
