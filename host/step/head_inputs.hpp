// What the token heads of a model read, of L positions on this rank; or its gradient.
#pragma once

#include <ATen/ATen.h>

#include "shard/sharded_model.hpp"

namespace wmtp {

struct HeadInputs {
  at::Tensor trunk;  ///< [B,L,D]
  // Of the tokens; only for chained heads, the gradient only if the embedding trains:
  at::Tensor embedded = {};  ///< [B,L,D]
  at::Tensor next = {};      ///< [B,H-1,D], of the tokens after this rank's positions
};

/// Of tokens [B,S] the H - 1 after this rank's positions; after the end of a sequence its first ones, which only
/// positions without a target read.
at::Tensor next_tokens(const ShardedModel& model, const at::Tensor& tokens);

/// The embeddings of tokens [B,S] at this rank's positions; for chained heads they and those of the next tokens are
/// kept in `inputs`. The embedding must be gathered.
at::Tensor embedded_for_heads(const ShardedModel& model, const at::Tensor& tokens, HeadInputs& inputs);

/// The embeddings that head k reads if it is chained: at position i that of token i + k - 1, its target being token
/// i + k. Undefined for others.
at::Tensor embedded_for(int64_t head, const HeadInputs& inputs);

}  // namespace wmtp
