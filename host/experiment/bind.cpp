#include "experiment/bind.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "experiment/foreign_names.hpp"
#include "experiment/schema.hpp"

namespace wmtp {
namespace {

std::string table_header(const std::string& table) { return "[" + table + "]"; }

std::string shown_key(const std::string& table, const std::string& key) {
  return table.empty() ? key : table_header(table) + " " + key;
}

/// Last parts of the names of the tables directly inside `parent`.
std::vector<std::string> tables_in(const std::string& parent) {
  std::vector<std::string> names;
  for (const SchemaTable& table : schema()) {
    const size_t dot = table.name.rfind('.');
    const std::string above = dot == std::string::npos ? "" : table.name.substr(0, dot);
    if (!table.name.empty() && above == parent) names.push_back(table.name.substr(dot + 1));
  }
  return names;
}

std::string hint_for_unknown(const SchemaTable& table, const std::string& key) {
  if (table.name == "references")
    return "wanted [references.NAME], where NAME has at most 32 lower case letters, digits and '_', the first a "
           "letter, and is not reference, policy, value or data";
  if (table.name == "parallel" && key == "stages") return "the stages of pipeline parallelism are `pipeline`";
  if (const std::string advice = advice_for_foreign_name(key); !advice.empty()) return advice;
  std::vector<std::string> keys;
  for (const Key& one : table.keys) keys.push_back(one.name);
  std::vector<std::string> known = keys;
  for (const std::string& name : tables_in(table.name)) known.push_back(name);
  const std::string nearest = nearest_name(key, known);
  if (!nearest.empty()) {
    const bool is_table = std::find(keys.begin(), keys.end(), nearest) == keys.end();
    return "did you mean " + (is_table ? table_header(key_path(table.name, nearest)) : quote(nearest)) + "?";
  }
  if (const std::string meant = key_meant_by(key); !meant.empty()) {
    const size_t dot = meant.rfind('.');
    return quote(key) + " is a " +
           (dot == std::string::npos ? "top-level key" : "key of " + table_header(meant.substr(0, dot)));
  }
  for (const SchemaTable& other : schema())
    if (find_key(other, key)) return quote(key) + " is a key of " + table_header(other.name);
  for (const SchemaTable& other : schema())
    if (other.name == key || other.name.ends_with("." + key)) return "wanted " + table_header(other.name);
  return (table.name.empty() ? "known: " : "known keys: ") + join_names(known);
}

class Binder {
 public:
  Binder(BoundExperiment& bound, Diagnostics& diagnostics) : bound_(bound), diagnostics_(diagnostics) {}

  void table(const SchemaTable& table, const Node& node) {
    if (table.mark_given) table.mark_given(bound_.experiment);
    for (const Entry& entry : node.entries) {
      const std::string path = key_path(table.name, entry.key);
      const Key* key = find_key(table, entry.key);
      const SchemaTable* inner = find_table(path);
      bound_.keys[path] = entry.position;
      bound_.values[path] = entry.value.position;
      for (size_t i = 0; i < entry.value.items.size(); ++i)
        bound_.values[key_path(path, std::to_string(i))] = entry.value.items[i].position;
      if (key)
        bind_key(table, *key, entry);
      else if (inner)
        bind_inner(*inner, entry);
      else if (!table.plugin)
        unknown(table, entry);
    }
  }

  void missing() {
    for (const SchemaTable* one : tables_of(bound_.experiment)) {
      const SchemaTable& table = *one;
      const bool inner = table.is_given && !table.is_given(bound_.experiment);
      if (inner || bound_.invalid_keys.count(table.name)) continue;
      std::vector<std::string> names;
      for (const Key& key : table.keys) {
        const std::string path = key_path(table.name, key.name);
        const bool is_required =
            key.is_required || (!key.required_without.empty() && !bound_.has(key.required_without));
        if (!is_required || bound_.has(path)) continue;
        names.push_back(key.name);
        bound_.invalid_keys.insert(path);
      }
      if (names.empty()) continue;
      const std::string list = join_names(names);
      if (table.name.empty())
        diagnostics_.add(bound_.start, list + " is missing", "start the file with name = \"...\"");
      else if (bound_.has(table.name))
        diagnostics_.add(bound_.keys[table.name], table_header(table.name) + " lacks " + list);
      else
        diagnostics_.add(bound_.start, table_header(table.name) + " is missing, wanted the table with " + list);
    }
  }

 private:
  void bind_key(const SchemaTable& table, const Key& key, const Entry& entry) {
    const std::string path = key_path(table.name, key.name);
    const std::string shown = shown_key(table.name, key.name);
    if (const auto value = check_value(entry.value, key.rule, shown, diagnostics_)) {
      key.set(bound_.experiment, *value);
    } else {
      bound_.invalid_keys.insert(path);
    }
  }

  void bind_inner(const SchemaTable& inner, const Entry& entry) {
    if (entry.value.kind == Node::Kind::table) {
      if (!inner.read_elsewhere) table(inner, entry.value);
      return;
    }
    const bool is_array = entry.value.kind == Node::Kind::list && !entry.value.items.empty() &&
                          entry.value.items[0].kind == Node::Kind::table;
    diagnostics_.add(entry.position, quote(inner.name) + " is a table: wanted " + table_header(inner.name) +
                                         " followed by its keys" + (is_array ? ", only once" : ""));
    bound_.invalid_keys.insert(inner.name);
    for (const Key& key : inner.keys) bound_.invalid_keys.insert(key_path(inner.name, key.name));
  }

  void unknown(const SchemaTable& table, const Entry& entry) {
    const bool is_table = entry.value.kind == Node::Kind::table;
    const std::string what =
        is_table ? "table " + table_header(key_path(table.name, entry.key)) : "key " + quote(entry.key);
    const std::string where = table.name.empty() || is_table ? "" : " in " + table_header(table.name);
    diagnostics_.add(entry.position, "unknown " + what + where, hint_for_unknown(table, entry.key));
  }

  BoundExperiment& bound_;
  Diagnostics& diagnostics_;
};

}  // namespace

bool BoundExperiment::all_valid(std::initializer_list<const char*> names) const {
  return std::none_of(names.begin(), names.end(), [&](const char* name) { return invalid_keys.count(name) > 0; });
}

TomlPosition BoundExperiment::position(const std::string& key) const {
  if (const auto value = values.find(key); value != values.end()) return value->second;
  const size_t dot = key.rfind('.');
  if (dot == std::string::npos) return start;
  const auto table = keys.find(key.substr(0, dot));
  return table == keys.end() ? start : table->second;
}

BoundExperiment bind(const Node& document, int source, Diagnostics& diagnostics) {
  BoundExperiment bound;
  bound.start = {source, 1, 1};
  Binder binder(bound, diagnostics);
  binder.table(*find_table(""), document);
  binder.missing();
  return bound;
}

}  // namespace wmtp
