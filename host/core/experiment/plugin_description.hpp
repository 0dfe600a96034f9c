// What is known of a plugin without loading it: plain data, read once in a child process and cached.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/experiment/experiment.hpp"

namespace wmtp {

/// One option of a plugin's own schema.
struct OptionSpec {
  enum class Type { number, integer, flag, text, texts };
  std::string name;
  Type type = Type::text;
  OptionValue default_value;
  std::optional<double> min, max;    ///< numbers and integers, closed
  std::vector<std::string> choices;  ///< text and texts; empty: any
  std::string help;
};

/// What a pipeline asks of the host with certain options, so that a missing [reference] is told before training.
/// Adapters ask for nothing.
struct PluginNeeds {
  std::vector<std::string> reads;  ///< "reference.loss"
  std::vector<std::string> heads;  ///< value heads and their kinds: "return (linear)", "rank (mlp, score)"
  bool pairs = false;              ///< a right and a wrong answer in neighbouring rows
  bool prompts = false;            ///< prompt tokens are targets too
  std::string when = "";           ///< weightings are asked at "token", "before", "head" or "all"; empty for others
  bool scores = false;             ///< a value model whose head learned scores will do
  bool operator==(const PluginNeeds&) const = default;
};

struct PluginDescription {
  std::string kind;  ///< "pipeline" or "adapter"
  std::string role;  ///< "weighting", "wrapper", "objective" or "adapter"
  std::string name, version, summary;
  std::vector<OptionSpec> options;
  /// With the default options; nothing where they alone do not say it: a wrapper needs what its inner one does, and a
  /// plugin may refuse its own defaults (an option that must be given).
  std::optional<PluginNeeds> needs;
  std::filesystem::path path;  ///< empty for a built-in one
  std::string sha256;          ///< of the file
};

/// A plugin with the options that it is to run with: those that the experiment gives. The others keep their defaults.
struct PluginSetting {
  PluginDescription description;
  OptionValues options;
};

/// A value that an option's range lets through and the plugin cannot take.
struct OptionMistake {
  bool of_inner = false;  ///< of the wrapped one
  std::string option, message;
  int64_t at = -1;  ///< byte of a text option where it is wrong; -1: all of it
};

/// What a plugin says of its options, once it is made with them.
struct PluginAnswer {
  PluginNeeds needs;
  std::optional<OptionMistake> mistake;  ///< then there are no needs
};

const char* to_string(OptionSpec::Type);

}  // namespace wmtp
