// Node: a TOML document as plain data with a place for every key and value, so that only toml_source.cpp knows toml++,
// and so that a `--set` is laid over a file by moving nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace wmtp {

/// Where something stands: a source known to Diagnostics; line and column from 1, columns in code points.
struct TomlPlace {
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
  std::vector<Entry> entries;  ///< in the order in which their keys stand
  TomlPlace place;

  Entry* find(const std::string& key);
};

struct Entry {
  std::string key;
  TomlPlace place;
  Node value;
};

inline Entry* Node::find(const std::string& key) {
  for (Entry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

}  // namespace wmtp
