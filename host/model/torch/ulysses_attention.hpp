// Attention over sequences whose positions are divided among ranks (DeepSpeed-Ulysses, Jacobs et al. 2023, arXiv
// 2309.14509): an all-to-all gives each rank all positions of its part of the heads, and a second one returns the
// results to the ranks of their positions. Both are differentiable; the numbers of a head are those of one rank.
// Q ranks, of which rank q has positions [q S/Q, (q+1) S/Q). B batch, S positions, H query heads, K key heads, D
// features.
#pragma once

#include <ATen/ATen.h>

#include "model/torch/attention.hpp"
#include "model/torch/rank_exchange.hpp"

namespace wmtp {

/// causal_attention (model/torch/attention.hpp) of query [B,S/Q,H,D], key and value [B,S/Q,K,D] -> [B,S/Q,H*D], with
/// `documents` [B,S]. Q divides H and K. [all Q ranks, collective, also in backward]
at::Tensor ulysses_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value, int64_t window,
                             const Documents& documents, const RankExchange& split);

}  // namespace wmtp
