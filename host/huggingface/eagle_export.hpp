// Exports head 2 as a draft model in EAGLE-3's format (Li et al. 2025, arXiv 2503.01840), as vLLM and SGLang read it.
//
// A draft of EAGLE-3 at position s reads three hidden states of the target at s, reduced by `fc`, and the embedding of
// the token at s + 1, and predicts the token at s + 2, like head 2. Head 2 reads only the trunk's output, so this is
// exact: `fc` passes on the third hidden state, which is the input of the target's last block, and the projections to
// queries, keys and values ignore the embedding. The draft's further tokens are those of EAGLE-3's own recursion, for
// which head 2 was not trained.
#pragma once

#include "huggingface/model_export.hpp"

namespace wmtp {

/// Writes model.safetensors and config.json. Error(usage) if the model has no parallel head 2, fewer than two blocks
/// below the heads, or an option of experiment/model_config.hpp other than head_dim and tie_word_embeddings, which
/// EAGLE-3's Llama lacks; otherwise as export_model. Of `request`, format and modeling are ignored. Returns the number
/// of the model's heads, of which the draft contains the second.
int64_t export_eagle(const ModelExport& request);

}  // namespace wmtp
