// Decoding: text from a model, token by token.
//
// Greedy decoding takes the token that head 1 considers most likely. With more heads the model drafts for itself
// (blockwise parallel decoding, Stern et al. 2018; self-speculation, Gloeckle et al., arXiv 2404.19737): the others
// propose the n - 1 tokens after the next one, one forward pass reads all of them, and head 1 verifies each. Proposals
// are accepted up to the first that differs from head 1's choice, followed by head 1's own token. A forward pass thus
// yields 1 to n tokens, the same as plain greedy decoding, because head 1's logits are bitwise the same either way
// (row_math.hpp). For the same reason a text is the same whether it is decoded alone or together with others, which
// reads each weight once for all of them.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/enum_names.hpp"
#include "inference/cached_model.hpp"
#include "inference/draft_policy.hpp"
#include "inference/sampling.hpp"

namespace wmtp {

struct DecodeRequest {
  std::vector<int64_t> prompt;  ///< at least one id
  int64_t max_tokens = 0;       ///< at least one
  std::vector<int64_t> ends;    ///< the ids that end a text
  Sampling sampling;
  Drafts drafts = Drafts::none;  ///< by the other heads; greedy only
  /// Receives each token as it is decoded; returns false to stop.
  std::function<bool(int64_t)> on_token = [](int64_t) { return true; };
};

struct Decoded {
  enum class End { max_tokens, end_of_text, positions, stopped };
  std::vector<int64_t> ids;  ///< without the prompt; including the one that ended the text
  int64_t forwards = 0;      ///< passes through the trunk, including the prompt's
  int64_t drafted = 0;       ///< of these, with drafts
  End end = End::max_tokens;
};

template <>
inline constexpr auto names_of<Decoded::End> =
    std::array{"max_tokens", "end_of_text", "max_sequence_length", "stopped"};
static_assert(names_of<Decoded::End>.size() == size_t(Decoded::End::stopped) + 1);

/// `model` has read no tokens yet. Ends after max_tokens, at one of `ends`, when `on_token` returns false, or when the
/// model has no position left. Error(data) if a logit is not finite.
Decoded decode(CachedModel& model, const DecodeRequest& request);

/// Decodes all requests, num_texts() - 1 of them at a time: the last text of `model` holds the newest prompt, which is
/// read once for requests with the same prompt that follow one another. Results in the order of the requests, each
/// equal to decode()'s except that `forwards` is 0; calls on_decoded() after each. [one head, no drafts, at least two
/// texts]
std::vector<Decoded> decode_all(CachedModel& model, const std::vector<DecodeRequest>& requests,
                                const std::function<void()>& on_decoded);

}  // namespace wmtp
