// ValueRule: type, range and choices of a value, for keys of the schema and options of plugins.
#pragma once

#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "experiment/toml/diagnostics.hpp"
#include "experiment/toml/toml_node.hpp"

namespace wmtp {

/// A table of values.
struct Fields {
  std::map<std::string, std::string> texts;
  std::map<std::string, double> numbers;
  std::map<std::string, std::vector<double>> lists;
  bool operator==(const Fields&) const = default;
};
template <class AnyJson>
void to_json(AnyJson& out, const Fields& fields) {
  out = AnyJson{{"texts", fields.texts}, {"numbers", fields.numbers}};
  if (!fields.lists.empty()) out["lists"] = fields.lists;
}
template <class AnyJson>
void from_json(const AnyJson& in, Fields& fields) {
  in.at("texts").get_to(fields.texts);
  in.at("numbers").get_to(fields.numbers);
  if (in.contains("lists")) in.at("lists").get_to(fields.lists);
}

using Value = std::variant<bool, int64_t, double, std::string, std::vector<std::string>, std::vector<double>,
                           std::vector<Fields>, Fields>;
enum class ValueType {
  flag,
  integer,
  number,
  text,
  text_or_integer,
  text_or_number,
  flag_or_text,
  texts,
  numbers,
  integers,
  tables
};

struct ValueRule {
  ValueType type = ValueType::text;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above = false;                                         ///< min is excluded
  bool below = false;                                         ///< max is excluded
  std::vector<std::string> choices;                           ///< empty: any text
  std::vector<std::pair<std::string, std::string>> synonyms;  ///< other names of choices: the name, the choice
  std::vector<std::string> planned;                           ///< names refused with "not supported yet"
  bool may_be_empty = true;                                   ///< for texts and lists
  size_t count = 0;                                           ///< required length of a list of numbers; 0: any
  std::vector<std::pair<std::string, ValueRule>> fields;      ///< of tables, which a number or a list of numbers
                                                              ///< may be too: texts, numbers, lists of numbers
  size_t required_fields = 1;                                 ///< how many of them, from the first, a table must have
};

/// The value, a synonym of a choice replaced by its name; nullopt if an error was added. `name`: the key's name in
/// messages.
std::optional<Value> check_value(const Node& node, const ValueRule& rule, const std::string& name,
                                 Diagnostics& diagnostics);

/// "a number above 0", "one of "a" and "b"".
std::string wanted(const ValueRule& rule);
/// "1 to 64", "above 0", "[0, 1)"; "" for any.
std::string range_text(const ValueRule& rule);
std::string type_text(ValueType type);

/// A value as TOML.
std::string toml_text(const Value& value);

}  // namespace wmtp
