// What is known of a plugin without loading it: plain data, read once in a child process and cached.
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
  std::optional<double> min, max;    ///< numbers and integers, closed
  std::vector<std::string> choices;  ///< text and texts; empty: any
  std::string help;
};

struct PluginDescription {
  std::string kind;     ///< "pipeline" or "adapter"
  std::string role;     ///< "weighting", "objective" or "adapter"
  std::string name, version, summary;
  std::vector<OptionSpec> options;
  std::vector<std::string> reads;  ///< "reference.loss": so that a missing [reference] is told before training
  std::filesystem::path path;      ///< empty for a built-in one
  std::string sha256;              ///< of the file
};

const char* to_string(OptionSpec::Type);

}  // namespace wmtp
