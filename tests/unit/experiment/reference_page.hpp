// docs/experiment.md, generated from the schema.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "experiment/schema.hpp"

namespace wmtp::test {

inline std::string code(const std::string& text) { return std::string("`").append(text).append("`"); }

/// "`text` and `records`"
inline std::string kinds_of(const std::vector<DataKind>& kinds) {
  std::vector<std::string> all = names(kinds);
  for (std::string& kind : all) kind = code(kind);
  return join_names(all);
}

inline std::string default_of(const Key& key) {
  if (!key.default_text.empty()) return key.default_text;
  if (key.is_required) return "required";
  static const Experiment defaults;
  const auto value = key.get(defaults);
  return value ? code(toml_text(*value)) : "";
}

inline std::string allowed(const Key& key) {
  if (key.rule.choices.empty()) return range_text(key.rule);
  std::string text;
  for (const std::string& choice : key.rule.choices)
    text.append(text.empty() ? "" : ", ").append(code(toml_text(choice)));
  if (key.rule.type == ValueType::text_or_integer || key.rule.type == ValueType::text_or_number)
    text += ", " + range_text(key.rule);
  return text;
}

inline std::string meaning(const Key& key) {
  std::string text = key.help;
  std::string synonyms;
  const std::vector<std::string>& choices = key.rule.choices;
  for (const auto& [name, choice] : key.rule.synonyms)
    if (std::find(choices.begin(), choices.end(), choice) != choices.end())
      synonyms.append(synonyms.empty() ? "; also accepted: " : ", ").append(code(name) + " for " + code(choice));
  text += synonyms;
  if (!key.kinds.empty()) text += "; only for " + kinds_of(key.kinds);
  if (key.path_kind == PathKind::path || key.path_kind == PathKind::paths) text += "; relative to the experiment file";
  return text;
}

/// The table of [model] whose keys this table of a frozen model repeats; null for all other tables.
inline const SchemaTable* described_as(const SchemaTable& table) {
  const size_t dot = table.name.find('.');
  return dot == std::string::npos ? nullptr : find_table(table.name.substr(dot + 1));
}

/// Names its keys and the defaults that differ from those of [model]; their meaning stands there.
inline std::string print_repeated(const SchemaTable& table, const SchemaTable& first) {
  constexpr const char* usual = "as in `[model]`";
  std::string names, defaults;
  for (const Key& key : table.keys) {
    const auto described = std::ranges::find(first.keys, key.name, &Key::name);
    names += (names.empty() ? "" : ", ") + code(key.name);
    if (default_of(key) != usual && default_of(key) != default_of(*described))
      defaults += " `" + key.name + "`: " + default_of(key) + ".";
  }
  const bool is_shape = first.name == "model";
  return "Keys as in [`[" + first.name + "]`](#" + (is_shape ? "model" : "modelrope_scaling") + "): " + names + "." +
         (is_shape ? std::string(" Default: ") + usual + "." : "") + defaults + "\n\n";
}

inline std::string print(const SchemaTable& table) {
  std::string text = table.name.empty() ? "## Top-level keys\n\n" : "## `[" + table.name + "]`\n\n";
  if (!table.name.empty()) text += table.help + "\n\n";
  if (table.read_elsewhere) return text;
  if (const SchemaTable* first = described_as(table)) return text + print_repeated(table, *first);
  if (!table.kinds.empty()) text += "Only for data of kind " + kinds_of(table.kinds) + ".\n\n";
  text += "| key | type | default | allowed | meaning |\n| --- | --- | --- | --- | --- |\n";
  for (const Key& key : table.keys) {
    text += "| `" + key.name + "` | " + type_text(key.rule.type) + " | " + default_of(key) + " | " + allowed(key) +
            " | " + meaning(key) + " |\n";
  }
  return text + "\n";
}

inline std::string not_yet() {
  std::string text =
      "## Not supported yet\n\nThese values are reserved and refused.\n\n| value | supported |\n| --- | --- |\n";
  for (const SchemaTable& table : schema()) {
    for (const Key& key : table.keys) {
      for (const std::string& value : key.rule.planned)
        text += "| `" + key_path(table.name, key.name) + "`: " + value + " | " + wanted(key.rule) + " |\n";
    }
  }
  return text;
}

inline std::string experiment_reference_markdown() {
  std::string text =
      "# Experiment file\n\n"
      "Generated from the schema (`host/experiment/schema*.cpp`) and checked by a test.\n\n"
      "An experiment is one TOML file of at most 16 KiB. Unknown keys are refused, with a suggestion where a known key "
      "is\n"
      "similar, and all errors of a file are reported at once. `--set table.key=value` replaces or adds a key; the "
      "value\n"
      "is TOML, except that a bare word such as `full_shard` needs no quotes. Where a number is wanted, an integer is\n"
      "accepted; NaN and infinity are always refused.\n\n"
      "```toml\nname = \"rho1\"\nseed = 42\n\n[pipeline]\nplugin = \"rho1\"\nkeep = 0.6\n\n[model]\ndim = 256\nlayers "
      "= 6\n"
      "heads = 8\n\n[reference]\nexperiment = \"reference.toml\"\n\n[data]\nkind = \"text\"\nfiles = "
      "[\"corpus/**.py\"]\n\n"
      "[train]\nsteps = 200\nbatch_size = 8\nsequence_length = 256\n```\n\n";
  for (const SchemaTable& table : schema()) text += print(table);
  return text + not_yet();
}

}  // namespace wmtp::test
