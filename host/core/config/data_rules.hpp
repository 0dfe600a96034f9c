// Rules over what is trained on: which keys go with which kind of data, tokenizers, bins of difficulty and length.
#pragma once

#include "core/experiment/bind.hpp"

namespace wmtp {

constexpr int64_t byte_vocab_size = 258;

/// Adds a mistake for every rule broken by keys that have no mistake of their own.
void check_data_rules(const Bound& bound, Diagnostics& diagnostics);

/// Whether both read through one tokenizer: the same kind and size, trained on the same text.
bool same_tokenizer(const Experiment& one, const Experiment& other);

}  // namespace wmtp
