// Converts TOML nodes to an Experiment by the schema. experiment/load checks rules across keys and binds plugin
// options.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>

#include "experiment/experiment.hpp"
#include "experiment/toml/diagnostics.hpp"
#include "experiment/toml/toml_node.hpp"

namespace wmtp {

/// An experiment, with source locations for later error messages.
struct BoundExperiment {
  Experiment experiment;
  TomlPosition start;                          ///< the start of the file
  std::map<std::string, TomlPosition> keys;    ///< locations of all given keys and tables: "train.steps", "train"
  std::map<std::string, TomlPosition> values;  ///< locations of their values and of list items: "data.files.0"
  std::set<std::string> invalid_keys;          ///< keys with a reported error, including missing keys

  bool has(const std::string& key) const { return keys.count(key) > 0; }
  /// Whether none of these keys has a reported error, so that a broken rule over them is a new error.
  bool all_valid(std::initializer_list<const char*> names) const;
  /// The location of the key's value; if not given, of its table's header; else the start of the file.
  TomlPosition position(const std::string& key) const;
};

/// Adds all errors: unknown and missing keys and tables, types, ranges, unsupported values.
BoundExperiment bind(const Node& document, int source, Diagnostics& diagnostics);

}  // namespace wmtp
