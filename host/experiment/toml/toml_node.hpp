// Node: a TOML document as plain data with the position of every key and value. Only toml_source.cpp uses toml++, and
// `--set` is applied to a file by moving nodes.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace wmtp {

/// A position: source number in Diagnostics, line and column from 1, columns in code points.
struct TomlPosition {
  int source = 0;
  int line = 1;
  int column = 1;
};

struct Entry;

struct Node {
  enum class Kind { flag, integer, number, text, list, table, time };
  Kind kind = Kind::table;
  bool flag = false;
  int64_t integer = 0;
  double number = 0;
  std::string text;
  std::vector<Node> items;
  std::vector<Entry> entries;  ///< in file order
  TomlPosition position;

  const Entry* find(const std::string& key) const;
  Entry* find(const std::string& key) { return const_cast<Entry*>(std::as_const(*this).find(key)); }
};

struct Entry {
  std::string key;
  TomlPosition position;
  Node value;
};

inline const Entry* Node::find(const std::string& key) const {
  for (const Entry& entry : entries)
    if (entry.key == key) return &entry;
  return nullptr;
}

}  // namespace wmtp
