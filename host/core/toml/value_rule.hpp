// ValueRule: what one value must be (type, range, choices), whether a key of the schema or an option of a plugin.
#pragma once

#include <limits>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/toml/diagnostics.hpp"
#include "core/toml/toml_node.hpp"

namespace wmtp {

using Value = std::variant<bool, int64_t, double, std::string, std::vector<std::string>, std::vector<double>>;
enum class ValueType { flag, integer, number, text, text_or_number, texts, numbers };

struct ValueRule {
  ValueType type = ValueType::text;
  double min = -std::numeric_limits<double>::infinity();
  double max = std::numeric_limits<double>::infinity();
  bool above = false;                ///< min itself is outside
  bool below = false;                ///< max itself is outside
  std::vector<std::string> choices;  ///< empty: any text
  std::vector<std::string> later;    ///< public names that this version does not know yet: refused as such
  bool may_be_empty = true;          ///< texts and lists
  size_t count = 0;                  ///< numbers: how many; 0: any number of them
};

/// The value, or nothing after a mistake was added. `name` is how the key is called in messages.
std::optional<Value> check_value(const Node& node, const ValueRule& rule, const std::string& name,
                                 Diagnostics& diagnostics);

/// "a number above 0", "one of "a" and "b""
std::string wanted(const ValueRule& rule);
/// "1 to 64", "above 0", "[0, 1)", "" for any.
std::string range_text(const ValueRule& rule);
std::string type_text(ValueType type);

/// A value as TOML.
std::string toml_text(const Value& value);

}  // namespace wmtp
