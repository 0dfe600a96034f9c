// docs/experiment.md, generated from the schema.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "experiment/schema.hpp"

namespace wmtp::test {

inline std::string code(const std::string& text) { return std::string("`").append(text).append("`"); }

/// "`text`, `records`"
inline std::string kinds_of(const std::vector<DataKind>& kinds) {
  std::string text;
  for (const std::string& kind : names(kinds)) text.append(text.empty() ? "" : ", ").append(code(kind));
  return text;
}

inline std::string default_of(const Key& key) {
  if (!key.default_text.empty()) return key.default_text;
  if (key.is_required) return "required";
  static const Experiment defaults;
  const auto value = key.get(defaults);
  if (!value) return "";
  const bool is_all =
      key.rule.type == ValueType::texts && *value == Value(key.rule.choices) && !key.rule.choices.empty();
  return is_all ? "all" : code(toml_text(*value));
}

/// The choices, or the type and the range.
inline std::string value_of(const Key& key) {
  std::string choices;
  bool are_explained = true;  // in the help, or in that of the key whose value is the default
  for (const std::string& choice : key.rule.choices) {
    choices.append(choices.empty() ? "" : ", ").append(code(toml_text(choice)));
    are_explained &= key.help.find(code(choice)) != std::string::npos || key.default_text.starts_with("`parallel.");
  }
  const std::string range = range_text(key.rule);
  switch (key.rule.type) {
    case ValueType::text:
      if (choices.empty()) return "string";
      return are_explained ? "choice" : choices;
    case ValueType::flag:
      return "boolean";
    case ValueType::flag_or_text:
      return "boolean, " + choices;
    case ValueType::text_or_integer:
      return choices + ", integer " + range;
    case ValueType::text_or_number:
      return choices + ", number " + range;
    case ValueType::texts:
      return choices.empty() ? "strings" : "list of " + choices;
    case ValueType::numbers:
      return "numbers " + range;
    case ValueType::integers:
      return "integers " + range;
    case ValueType::tables:
      return "tables";
    default:
      return type_text(key.rule.type) + (range.empty() ? "" : " " + range);
  }
}

/// With the default: a choice in bold, others in parentheses.
inline std::string value_and_default(const Key& key) {
  std::string text = value_of(key);
  const std::string standard = default_of(key);
  if (standard.empty()) return text;
  const size_t at = standard.front() == '`' ? text.find(standard) : std::string::npos;
  return at == std::string::npos ? text + " (" + standard + ")"
                                 : text.replace(at, standard.size(), "**" + standard + "**");
}

/// "`float32` for `fp32`, …": other names of choices.
inline std::string synonyms() {
  std::string text;
  for (const SchemaTable& table : schema()) {
    for (const Key& key : table.keys) {
      for (const auto& [name, choice] : key.rule.synonyms) {
        const std::string one = code(name) + " for " + code(choice);
        if (std::ranges::find(key.rule.choices, choice) != key.rule.choices.end() &&
            text.find(one) == std::string::npos)
          text.append(text.empty() ? "" : ", ").append(one);
      }
    }
  }
  return text;
}

/// The table that describes the keys of a frozen model's table: that of [model], and of [value] that of [reference].
inline const SchemaTable* described_as(const SchemaTable& table) {
  if (table.name.starts_with("value")) return find_table("reference" + table.name.substr(5));
  const size_t dot = table.name.find('.');
  return table.name.starts_with("reference.") ? find_table(table.name.substr(dot + 1)) : nullptr;
}

/// Names the keys that are missing, and the defaults that differ; the meaning of the others stands in `first`.
inline std::string print_repeated(const SchemaTable& table, const SchemaTable& first) {
  const std::string usual = "as in `[model]`";
  std::string anchor = first.name, missing, defaults;
  std::erase(anchor, '.');
  for (const Key& key : first.keys) {
    const auto own = std::ranges::find(table.keys, key.name, &Key::name);
    if (own == table.keys.end())
      missing.append(missing.empty() ? " except " : ", ").append(code(key.name));
    else if (default_of(*own) != usual && default_of(*own) != default_of(key))
      defaults += "; `" + key.name + "`: " + default_of(*own).substr(usual.size() + 2);
  }
  return "Keys as in [`[" + first.name + "]`](#" + anchor + ")" + missing +
         (table.name == "value" ? ", also those of `[value.model]` and `[value.model.rope_scaling]`" : "") +
         (first.name == "model" ? ". Defaults: " + usual + defaults : "") + ".\n\n";
}

inline std::string print(const SchemaTable& table) {
  if (table.name.starts_with("value.")) return "";  // [value] names it
  std::string text = table.name.empty() ? "## Top-level keys\n\n" : "## `[" + table.name + "]`\n\n";
  if (!table.name.empty() && !table.help.empty()) text += table.help + "\n\n";
  if (table.read_elsewhere || table.keys.empty()) return text;
  if (const SchemaTable* first = described_as(table)) return text + print_repeated(table, *first);
  if (!table.kinds.empty()) text += "Only for " + kinds_of(table.kinds) + ".\n\n";
  for (const Key& key : table.keys)
    text += "- `" + key.name + "`, " + value_and_default(key) +
            (key.kinds.empty() ? "" : ", only for " + kinds_of(key.kinds)) + ": " + key.help + "\n";
  return text + "\n";
}

inline std::string not_yet() {
  std::string text = "## Not supported yet\n\nReserved and refused:";
  for (const SchemaTable& table : schema()) {
    for (const Key& key : table.keys) {
      if (key.rule.planned.empty()) continue;
      std::vector<std::string> values;
      for (const std::string& value : key.rule.planned) values.push_back(code(value));
      text += " `" + key_path(table.name, key.name) + "` " + join_names(values) + ".";
    }
  }
  return text + "\n";
}

inline std::string experiment_reference_markdown() {
  std::string text =
      "# Experiment file\n\n"
      "Generated from `host/experiment/schema*.cpp`; a test checks it.\n\n"
      "An experiment is one TOML file of at most 16 KiB. Unknown keys are refused, with a suggestion where a known key "
      "is\n"
      "similar, and all errors of a file are reported at once. `--set table.key=value` replaces or adds a key; the "
      "value\n"
      "is TOML, except that a bare word such as `full_shard` needs no quotes. Where a number is wanted, an integer is\n"
      "accepted; NaN and infinity are always refused. Paths are relative to the experiment file.\n\n"
      "Defaults are in parentheses or bold. Other accepted names: " +
      synonyms() +
      ".\n\n"
      "```toml\nname = \"rho1\"\nseed = 42\n\n[pipeline]\nplugin = \"rho1\"\nkeep = 0.6\n\n[model]\ndim = 256\nlayers "
      "= 6\n"
      "heads = 8\n\n[reference]\nexperiment = \"reference.toml\"\n\n[data]\nkind = \"text\"\nfiles = "
      "[\"corpus/**.py\"]\n\n"
      "[train]\nsteps = 200\nbatch_size = 8\nsequence_length = 256\n```\n\n";
  for (const SchemaTable& table : schema()) text += print(table);
  return text + not_yet();
}

}  // namespace wmtp::test
