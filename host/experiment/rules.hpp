// What spans several keys: defaults that follow from other keys, and rules that no single key can check.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiment/bind.hpp"

namespace wmtp {

/// Fills what follows from other keys (kv_heads, ffn_dim, vocab_size, max_sequence_length, the tokenizer's size, the
/// shape of [reference.model]). Values that are not known because of a mistake stay zero.
void resolve_defaults(Bound& bound);

/// Adds a mistake for every rule broken by keys that have no mistake of their own. `reads` is what the pipeline reads.
void check_rules(const Bound& bound, const std::vector<std::string>& reads, Diagnostics& diagnostics);

/// The stage and the experiment that names it: one tokenizer or one vocabulary, and room for the sequences.
void check_stage(const Bound& bound, const Experiment& stage, Diagnostics& diagnostics);

}  // namespace wmtp
