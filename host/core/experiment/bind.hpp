// Converts TOML nodes to an Experiment by the schema. core/config checks rules across keys and binds plugin options.
#pragma once

#include <initializer_list>
#include <map>
#include <set>
#include <string>

#include "core/experiment/experiment.hpp"
#include "core/toml/diagnostics.hpp"
#include "core/toml/toml_node.hpp"

namespace wmtp {

/// An experiment with the places that later error messages refer to.
struct Bound {
  Experiment experiment;
  TomlPlace start;                          ///< start of the file
  std::map<std::string, TomlPlace> keys;    ///< places of all given keys and tables: "train.steps", "train"
  std::map<std::string, TomlPlace> values;  ///< places of their values, and of list items: "data.files.0"
  std::set<std::string> bad;                ///< keys with a reported error, including missing keys

  bool has(const std::string& key) const { return keys.count(key) > 0; }
  /// Whether no error was reported for these keys, so that an error of a rule over them is new.
  bool good(std::initializer_list<const char*> names) const;
  /// The place of the key's value; if not given, of its table's header, else the start of the file.
  TomlPlace place(const std::string& key) const;
};

/// Adds all errors: unknown and missing keys and tables, types, ranges, values that are not supported yet.
Bound bind(const Node& document, int source, Diagnostics& diagnostics);

}  // namespace wmtp
