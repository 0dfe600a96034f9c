// Text from a model, token by token.
//
// Greedy, each token is the one that head 1 holds most likely. With more heads the model drafts for itself (blockwise
// parallel decoding, Stern et al. 2018; self-speculation, Gloeckle et al., arXiv 2404.19737): heads 2 … n propose the
// tokens after the next one, one forward pass takes them all, and head 1 says at each whether it would have chosen it.
// Proposals are kept as far as they agree; head 1's own token follows the last of them. A forward pass thus gives 1 to
// n tokens, and they are those of plain greedy decoding: head 1's logits have the same bits either way (row_math.hpp).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/inference/cached_model.hpp"
#include "engine/inference/sampling.hpp"

namespace wmtp {

struct DecodeRequest {
  std::vector<int64_t> prompt;  ///< at least one id
  int64_t max_tokens = 0;       ///< at least one
  int64_t end_of_text = -1;     ///< the id that ends a text; -1: none does
  Sampling sampling;
  bool drafts = false;  ///< use the other heads; greedy only
  /// Gets each token when it is known, and says whether the text goes on.
  std::function<bool(int64_t)> take = [](int64_t) { return true; };
};

struct Decoded {
  enum class End { max_tokens, end_of_text, positions, stopped };
  std::vector<int64_t> ids;  ///< without the prompt; with the id that ended the text
  int64_t forwards = 0;      ///< passes through the trunk, the prompt's own among them
  End end = End::max_tokens;
};

/// `model` knows no token yet. Ends where no more tokens are wanted, at the end of the text, where `take` says so, or
/// where the model has no position left. Error(data) where a logit is not finite.
Decoded decode(CachedModel& model, const DecodeRequest& request);

}  // namespace wmtp
