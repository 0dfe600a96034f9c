// The windows of `kind = "tokens"` that a run trains on. Knows no LibTorch.
#pragma once

#include <memory>

#include "core/corpus/token_windows.hpp"

namespace wmtp {

/// data.file, open. Error(data): as open_token_file, and where it has fewer windows than the run's steps need.
std::unique_ptr<TokenWindows> open_training_tokens(const Experiment& experiment, int64_t world_size);

}  // namespace wmtp
