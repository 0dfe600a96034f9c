// What spans several keys: defaults that follow from other keys, and rules that no single key can check.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "experiment/bind.hpp"
#include "experiment/plugin_description.hpp"

namespace wmtp {

/// Fills what follows from other keys (kv_heads, ffn_dim, vocab_size, max_sequence_length, the tokenizer's size, the
/// shapes of [reference.model] and [value.model]). Values that are not known because of a mistake stay zero.
void resolve_defaults(Bound& bound);

/// Adds a mistake for every rule broken by keys that have no mistake of their own. `needs` are the pipeline's; without
/// them, because of a mistake, rules over them are left out.
void check_rules(const Bound& bound, const std::optional<PluginNeeds>& needs, Diagnostics& diagnostics);

/// A stage, what its pipeline needs and is, and whether it has no mistake.
struct LoadedStage {
  std::shared_ptr<const Experiment> experiment;
  std::optional<PluginNeeds> needs;
  bool is_good = false;
  bool has_objective = false;  ///< which trains value heads, and keeps no head that predicts tokens
};

/// Who names a stage: its table ("model", "reference", "value"), and whether its own pipeline is an objective too.
struct StageUser {
  std::string table;
  bool has_objective = false;
};

/// The stage and who names it: one tokenizer or one vocabulary, room for the sequences, for [model] the same shape, for
/// [value] a value head, elsewhere heads that predict tokens unless the user trains value heads alone.
void check_stage(const Bound& bound, const StageUser& user, const LoadedStage& stage, Diagnostics& diagnostics);

}  // namespace wmtp
