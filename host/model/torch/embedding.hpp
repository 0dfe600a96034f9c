// The rows of an embedding for tokens, and their gradient. Ranks that divide the vocabulary have different tokens: each
// looks up those of all T ranks in its piece, and a sum of T parts, of which one is not zero, gives every rank the rows
// of its own, exactly. For the gradient every rank gathers what all have.
#pragma once

#include <ATen/ATen.h>

#include "model/torch/rank_exchange.hpp"
#include "model/torch/weight_store.hpp"

namespace wmtp {

/// tokens [B,n] -> [B,n,D]. `ranks`: those that have the other pieces; null: the embedding is whole. [all T ranks with
/// as many tokens, collective]
at::Tensor embedded(const WeightHandle& embedding, const at::Tensor& tokens, const RankExchange* ranks);
/// Adds d_embedded [B,n,D] to the gradient of the embedding, which has `vocab_size` rows on all ranks together and need
/// not be gathered. [all T ranks with as many tokens, collective]
void add_embedded(const WeightHandle& embedding, int64_t vocab_size, const at::Tensor& tokens,
                  const at::Tensor& d_embedded, const RankExchange* ranks);

}  // namespace wmtp
