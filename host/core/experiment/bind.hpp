// Binding: nodes -> Experiment by the schema. What spans several keys is left to rules.hpp, a plugin's own keys to
// plugin_options.hpp.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>

#include "core/experiment/experiment.hpp"
#include "core/toml/diagnostics.hpp"
#include "core/toml/toml_node.hpp"

namespace wmtp {

/// An experiment on its way, with the places that later mistakes point at.
struct Bound {
  Experiment experiment;
  TomlPlace start;                          ///< of the file
  std::map<std::string, TomlPlace> keys;    ///< of every given key and table: "train.steps", "train"
  std::map<std::string, TomlPlace> values;  ///< the same, and of the items of lists: "data.files.0"
  std::set<std::string> bad;                ///< keys whose mistake is told already, missing ones too

  bool has(const std::string& key) const { return keys.count(key) > 0; }
  /// None of them has a mistake: a rule over them says something new.
  bool good(std::initializer_list<const char*> names) const;
  /// The value of a given key; else the header of its table; else the start of the file.
  TomlPlace place(const std::string& key) const;
};

/// Adds all mistakes: unknown and missing keys and tables, types, ranges, what is not supported yet.
Bound bind(const Node& document, int source, Diagnostics& diagnostics);

}  // namespace wmtp
