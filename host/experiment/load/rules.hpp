// Steps of loading after the schema: plugin options, defaults that depend on other keys, and rules across keys.
#pragma once

#include <optional>

#include "base/text.hpp"
#include "experiment/bind.hpp"
#include "experiment/load/load.hpp"

namespace wmtp {

/// Finds the plugins of [pipeline], [pipeline.inner] and [adapter], and checks and fills their options, including
/// defaults: first by the schema that the plugin declares, then by the plugin itself. A plugin that is absent or
/// refused is one error at its name; its options are not checked. A value that the plugin refuses is an error at that
/// value, at the byte that the plugin reports. Returns what the pipeline needs with its options; nothing after an error
/// in its tables. Without `check` (in tests) the needs are those of the description.
std::optional<PluginNeeds> bind_plugins(const Node& document, const DescribePlugin& describe, const CheckPlugin& check,
                                        BoundExperiment& bound, Diagnostics& diagnostics);

/// Fills the keys of [model] that are not given from `shape`, which the folder of its weights states. Adds an error for
/// each given key that the weights contradict: the keys that determine the tensors. Positions and norms may differ.
/// Without `shape`, adds an error unless dim, layers and heads are given. (weights_shape.cpp)
void fill_shape(BoundExperiment& bound, const std::optional<ModelConfig>& shape, Diagnostics& diagnostics);

/// Fills defaults that depend on other keys (kv_heads, ffn_dim, vocab_size, max_sequence_length, the tokenizer's size,
/// the shapes of frozen models, as [reference.model]). Values unknown because of an error remain zero. (defaults.cpp)
void resolve_defaults(BoundExperiment& bound);

/// Adds an error for each rule broken by keys without errors of their own. `needs`: the pipeline's; if nullopt because
/// of an error, the rules that depend on them are skipped.
void check_rules(const BoundExperiment& bound, const std::optional<PluginNeeds>& needs, Diagnostics& diagnostics);

/// The part of check_rules for data and tokenizer (data_rules.cpp).
void check_data_rules(const BoundExperiment& bound, Diagnostics& diagnostics);

/// The part of check_rules for how the heads train, and what is logged about them (head_rules.cpp).
void check_head_rules(const BoundExperiment& bound, const PluginNeeds* needs, Diagnostics& diagnostics);

/// The part of check_rules for keys that nothing reads in this experiment (unused_keys.cpp).
void check_unused_keys(const BoundExperiment& bound, const PluginNeeds* needs, Diagnostics& diagnostics);

/// Base of the classes that check rules across keys.
class RuleChecker {
 protected:
  RuleChecker(const BoundExperiment& bound, Diagnostics& diagnostics)
      : bound_(bound), e_(bound.experiment), diagnostics_(diagnostics) {}

  void refuse(const std::string& key, const std::string& message, const std::string& hint = "") {
    diagnostics_.add(bound_.position(key), message, hint);
  }
  /// Points at the key instead of its value, because the key must be removed.
  void refuse_key(const std::string& key, const std::string& message, const std::string& hint = "") {
    diagnostics_.add(bound_.keys.at(key), message, hint);
  }
  static std::string number(int64_t value) { return std::to_string(value); }
  /// What names the pipeline in a message.
  std::string title() const {
    return "pipeline " + quote(e_.pipeline.plugin) + (e_.inner ? " over " + quote(e_.inner->plugin) : "");
  }

  const BoundExperiment& bound_;
  const Experiment& e_;
  Diagnostics& diagnostics_;
};

/// Whether both experiments use the same tokenizer: same kind and size, trained on the same text.
bool same_tokenizer(const Experiment& one, const Experiment& other);

}  // namespace wmtp
