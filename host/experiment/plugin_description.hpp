// A plugin's description as plain data: this process does not load the plugin; a child process reads the description
// once and caches it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiment/experiment.hpp"

namespace wmtp {

/// One option of a plugin's own schema.
struct OptionSpec {
  enum class Type { number, integer, flag, text, texts };
  std::string name;
  Type type = Type::text;
  OptionValue default_value;
  std::optional<double> min, max;    ///< numbers and integers; inclusive
  std::vector<std::string> choices;  ///< text and texts; empty: any
  std::string help;
};

/// What a pipeline needs from the host with its options, so that a missing [reference] is reported before training.
/// Adapters have no needs.
struct PluginNeeds {
  std::vector<std::string> reads;  ///< "reference.loss"
  std::vector<std::string> heads;  ///< value heads and their kinds: "return (linear)", "rank (mlp, score)"
  bool pairs = false;              ///< a correct and an incorrect answer in consecutive rows
  bool prompts = false;            ///< prompt tokens are also targets
  std::string when = "";           ///< weightings: called at "token", "before", "head" or "all"; else empty
  bool scores = false;             ///< accepts a value model whose head learned scores
  bool operator==(const PluginNeeds&) const = default;
};

/// "reference.loss" for "reference"; "" when the pipeline reads nothing of that model.
std::string first_read(const PluginNeeds& needs, const std::string& model);

struct PluginDescription {
  std::string kind;  ///< "pipeline" or "adapter"
  std::string role;  ///< "weighting", "wrapper", "objective" or "adapter"
  std::string name, version, summary;
  std::vector<OptionSpec> options;
  /// With the default options. nullopt for a wrapper, which has the needs of its inner plugin, and for a plugin that
  /// refuses its defaults (an option is required).
  std::optional<PluginNeeds> needs;
  std::filesystem::path path;  ///< empty for a built-in plugin
  std::string sha256;          ///< hash of the file
};

/// A plugin and the options to create it with.
struct PluginSetting {
  PluginDescription description;
  OptionValues options;  ///< set in the experiment; the plugin has defaults for the others
};

/// An option value that is in range but refused by the plugin.
struct OptionMistake {
  bool of_inner = false;  ///< an option of the inner plugin
  std::string option, message;
  int64_t at = -1;  ///< byte offset of the error in a text option; -1: the whole value
};

/// A plugin's answer when it is created with these options.
struct PluginAnswer {
  PluginNeeds needs;
  std::optional<OptionMistake> mistake;  ///< if set, `needs` is empty
};

const char* to_string(OptionSpec::Type);

}  // namespace wmtp
