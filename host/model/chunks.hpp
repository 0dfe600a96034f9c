// In what portions the largest temporaries exist: chunks of logits, blocks of attention scores. Apart from the code that
// uses them, so that `plan` counts with the same numbers. Knows no LibTorch.
#pragma once

#include <algorithm>
#include <cstdint>

namespace wmtp {

/// Tokens of a chunk: its logits take 16 MB in fp32 up to a vocabulary of 16,384. Never fewer than 256 tokens, since
/// each chunk adds to the whole weight gradient: 131 tokens of 32,000 x 512 took 1.2 times the time in bf16.
/// Twice as many where losses come first: tokens that fit in one chunk are multiplied once (rho-1 with 1,020 tokens of
/// 8,192 x 256 in one chunk beside two: 1.1 times the tokens a second).
inline int64_t chunk_tokens(int64_t vocab_size, bool losses_first = false) {
  return std::clamp<int64_t>((int64_t{losses_first ? 8 : 4} << 20) / vocab_size, 256, 4096);
}

/// Queries of a block of attention.
inline constexpr int64_t queries_of_block = 128;
/// Of one block's scores: 1 MB in bf16, which the next product finds in the cache.
inline constexpr int64_t elements_of_block = int64_t{1} << 19;

/// Heads of keys that one block takes, each read by R heads of queries, at S positions; at least one a thread.
inline int64_t key_heads_of_block(int64_t R, int64_t S, int64_t threads) {
  return std::max(elements_of_block / (R * std::min(queries_of_block, S) * S), threads);
}

}  // namespace wmtp
