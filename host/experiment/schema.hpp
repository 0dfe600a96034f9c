// The schema: every table and key of an experiment, declared once. The loader, the printer, the hash, run_params and
// the reference page use this list in this order. Defaults are those of Experiment{} (experiment.hpp).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.hpp"
#include "experiment/toml/value_rule.hpp"

namespace wmtp {

enum class PathKind { none, path, paths, weights };  ///< weights: a path or "run:NAME"

struct Key {
  std::string name;
  ValueRule rule;
  std::string help;
  std::function<std::optional<Value>(const Experiment&)> get;  ///< nullopt: not set, not printed
  std::function<void(Experiment&, const Value&)> set;

  bool is_required = false;
  std::string required_without;         ///< "model.weights": required unless that key is given
  std::string default_text;             ///< describes a default that depends on other keys
  std::vector<DataKind> kinds;          ///< kinds of data that allow the key; empty: all
  PathKind path_kind = PathKind::none;  ///< the identity uses the content of these files instead of their paths
  bool in_identity = true;

  Key& required() {
    is_required = true;
    return *this;
  }
  Key& at_least(double min) {
    rule.min = min;
    return *this;
  }
  Key& range(double min, double max) {
    rule.min = min;
    rule.max = max;
    return *this;
  }
  Key& above(double min) {
    rule.min = min;
    rule.above = true;
    return *this;
  }
  Key& below(double max) {
    rule.max = max;
    rule.below = true;
    return *this;
  }
  Key& one_of(std::vector<std::string> choices) {
    rule.choices = std::move(choices);
    return *this;
  }
  /// Other names of choices. Only the choice is printed, and part of the identity.
  Key& also(std::vector<std::pair<std::string, std::string>> synonyms) {
    rule.synonyms = std::move(synonyms);
    return *this;
  }
  Key& planned(std::vector<std::string> names) {
    rule.planned = std::move(names);
    return *this;
  }
  Key& not_empty() {
    rule.may_be_empty = false;
    return *this;
  }
  Key& defaults_to(std::string text) {
    default_text = std::move(text);
    return *this;
  }
  Key& only_for(std::vector<DataKind> data_kinds) {
    kinds = std::move(data_kinds);
    return *this;
  }
  Key& is_path(PathKind kind) {
    path_kind = kind;
    return *this;
  }
  Key& not_in_identity() {
    in_identity = false;
    return *this;
  }
  /// Zero, false, an empty text or an empty list means "not given".
  Key& unset_when_empty();
};

struct SchemaTable {
  std::string name;  ///< "" for the top-level keys, "data.tokenizer" for a nested table
  std::string help;
  std::vector<Key> keys;
  std::function<bool(const Experiment&)> is_given{};               ///< null: always given
  std::function<void(Experiment&)> mark_given{};                   ///< called before the first key is set
  std::function<const PluginChoice&(const Experiment&)> plugin{};  ///< provides the options that are further keys
  std::vector<DataKind> kinds{};                                   ///< kinds of data that allow the table; empty: all
  bool in_identity = true;
  bool read_elsewhere = false;  ///< its keys are not in the schema
};

const std::vector<SchemaTable>& schema();

/// The tables that an experiment can have: those of the schema, and for each [references.NAME] of `e` those of NAME.
std::vector<const SchemaTable*> tables_of(const Experiment& e);

/// Whether a key or table that `kinds` of data allow applies to data of `kind`.
bool applies_to(const std::vector<DataKind>& kinds, DataKind kind);

/// Also of a table that only some experiments have: "references.NAME" for every valid NAME.
const SchemaTable* find_table(const std::string& name);
const Key* find_key(const SchemaTable& table, const std::string& key);

/// "train" and "steps" -> "train.steps"
std::string key_path(const std::string& table, const std::string& key);

}  // namespace wmtp
