// A single visitor walks the schema; it also marks the keys that the hash skips.
#include "experiment/canonical.hpp"

#include "base/sha256.hpp"
#include "experiment/schema.hpp"

namespace wmtp {
namespace {

/// Calls visit(table, key or null, name, value) for every key with a value and every plugin option (key null).
template <class OnValue>
void for_each_value(const Experiment& e, OnValue on_value) {
  for (const SchemaTable* one : tables_of(e)) {
    const SchemaTable& table = *one;
    if ((table.is_given && !table.is_given(e)) || !applies_to(table.kinds, e.data.kind)) continue;
    for (const Key& key : table.keys) {
      if (!applies_to(key.kinds, e.data.kind)) continue;
      if (const auto value = key.get(e)) on_value(table, &key, key.name, *value);
    }
    if (!table.plugin) continue;
    for (const auto& [name, option] : table.plugin(e).options) on_value(table, nullptr, name, option);
  }
}

Value with_absolute_paths(const Experiment& e, const Key& key, Value value) {
  if (key.path_kind == PathKind::paths) {
    for (std::string& path : std::get<std::vector<std::string>>(value)) path = e.resolve(path).string();
  } else if (key.path_kind != PathKind::none) {
    std::string& path = std::get<std::string>(value);
    const bool is_run = key.path_kind == PathKind::weights && path.starts_with("run:");
    if (!path.empty() && !is_run) path = e.resolve(path).string();
  }
  return value;
}

/// Whether config_hash hashes the value; `key`: as in for_each_value.
bool in_identity(const SchemaTable& table, const Key* key) {
  return table.in_identity && (!key || (key->in_identity && key->path_kind == PathKind::none));
}

template <class Counts>
std::map<std::string, Value> flat_values_if(const Experiment& experiment, Counts counts) {
  std::map<std::string, Value> flat;
  for_each_value(experiment,
                 [&](const SchemaTable& table, const Key* key, const std::string& name, const Value& value) {
                   if (counts(table, key)) flat[key_path(table.name, name)] = value;
                 });
  return flat;
}

class Printer {
 public:
  void add(const SchemaTable& table, const std::string& name, const Value& value, bool as_comment = false,
           const std::string& remark = "") {
    if (table.name != table_) {
      table_ = table.name;
      text_ += "\n[" + table.name + "]\n";
    }
    text_ +=
        (as_comment ? "# " : "") + name + " = " + toml_text(value) + (remark.empty() ? "" : "  # " + remark) + "\n";
  }
  const std::string& text() const { return text_; }

 private:
  std::string table_;
  std::string text_;
};

std::string toml_of(const Experiment& experiment, bool with_origins) {
  Printer printer;
  const auto origin_text = [&](const std::string& path) {
    const auto stated = experiment.origins.find(path);
    return stated == experiment.origins.end() ? "default" : stated->second;
  };
  for_each_value(experiment,
                 [&](const SchemaTable& table, const Key* key, const std::string& name, const Value& value) {
                   const bool is_given = key || table.plugin(experiment).given.count(name) > 0;
                   printer.add(table, name, key ? with_absolute_paths(experiment, *key, value) : value, !is_given,
                               with_origins ? origin_text(key_path(table.name, name)) : "");
                 });
  return printer.text();
}

}  // namespace

std::string to_toml(const Experiment& experiment) { return toml_of(experiment, false); }

std::string to_toml_with_origins(const Experiment& experiment) { return toml_of(experiment, true); }

std::string config_hash(const Experiment& experiment, const IdentityParts& parts) {
  Printer printer;
  for_each_value(experiment,
                 [&](const SchemaTable& table, const Key* key, const std::string& name, const Value& value) {
                   if (in_identity(table, key)) printer.add(table, name, value);
                 });
  Sha256 hash;
  hash.add(printer.text());
  for (const auto& [name, value] : parts)
    hash.add("\n").add(toml_text(Value(name))).add(" = ").add(toml_text(Value(value)));
  return hash.hex();
}

std::string table_text(const Experiment& experiment, const std::string& name) {
  Printer printer;
  for_each_value(experiment, [&](const SchemaTable& table, const Key* key, const std::string& one, const Value& value) {
    if (table.name == name) printer.add(table, one, key ? with_absolute_paths(experiment, *key, value) : value);
  });
  return printer.text();
}

std::map<std::string, Value> flat_values(const Experiment& experiment) {
  return flat_values_if(experiment, [](const SchemaTable&, const Key*) { return true; });
}

std::map<std::string, Value> identity_values(const Experiment& experiment) {
  return flat_values_if(experiment, in_identity);
}

}  // namespace wmtp
