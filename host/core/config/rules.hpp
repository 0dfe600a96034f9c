// What spans several keys: defaults that follow from other keys, and rules that no single key can check.
#pragma once

#include <optional>

#include "core/experiment/bind.hpp"
#include "core/experiment/plugin_description.hpp"

namespace wmtp {

/// Fills what follows from other keys (kv_heads, ffn_dim, vocab_size, max_sequence_length, the tokenizer's size, the
/// shapes of [reference.model] and [value.model]). Values that are not known because of a mistake stay zero.
void resolve_defaults(Bound& bound);

/// Adds a mistake for every rule broken by keys that have no mistake of their own. `needs` are the pipeline's; without
/// them, because of a mistake, rules over them are left out.
void check_rules(const Bound& bound, const std::optional<PluginNeeds>& needs, Diagnostics& diagnostics);

}  // namespace wmtp
