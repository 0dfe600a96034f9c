// How well a finished model predicts a text, head by head. [engine]
#pragma once

#include <vector>

#include "core/job/engine_requests.hpp"

namespace wmtp {

/// Of every head, the first one first. Error(data) where the model cannot be used, or names no tokenizer; Error(usage)
/// for a text that its tokenizer does not take, where the texts have no token to predict, and for a stride above the
/// window's length.
std::vector<HeadLoss> losses_of_heads(const PerplexityRequest& request);

}  // namespace wmtp
