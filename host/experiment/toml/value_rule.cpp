// NaN and infinities are refused for every number, so no range needs to exclude them.
#include "experiment/toml/value_rule.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "base/text.hpp"

namespace wmtp {
namespace {

std::string number_text(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  char text[64];
  const double size = std::abs(number);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e15);
  const auto format = plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string result(text, std::to_chars(text, text + sizeof text, number, format).ptr);
  // TOML reads 10000 as an integer; 1e-05 is valid but unusual.
  if (plain && result.find('.') == std::string::npos) result += ".0";
  const size_t exponent = result.find('e');
  if (exponent != std::string::npos && result[exponent + 2] == '0') result.erase(exponent + 2, 1);
  return result;
}

/// For bounds in messages and docs, and numbers in lists: 65536, not 65536.0.
std::string bound_text(double bound) {
  const std::string text = number_text(bound);
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

std::string toml_string(const std::string& text) {
  std::string result = "\"";
  for (const char byte : text) {
    const auto code = uint8_t(byte);
    if (byte == '"' || byte == '\\') {
      result += '\\';
      result += byte;
    } else if (byte == '\n') {
      result += "\\n";
    } else if (code < 0x20 || code == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04X", code);
      result += escape;
    } else {
      result += byte;
    }
  }
  return result + '"';
}

template <class Items, class Print>
std::string list_text(const Items& items, Print print) {
  std::string text = "[";
  for (size_t i = 0; i < items.size(); ++i) text.append(i == 0 ? "" : ", ").append(print(items[i]));
  return text + "]";
}

std::vector<std::string> in_quotes(const std::vector<std::string>& names) {
  std::vector<std::string> result;
  for (const std::string& name : names) result.push_back(quote(name));
  return result;
}

std::vector<std::string> field_names(const ValueRule& rule) {
  std::vector<std::string> names;
  for (const auto& [name, field] : rule.fields) names.push_back(name);
  return names;
}

std::string found_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::flag:
      return node.flag ? "true" : "false";
    case Node::Kind::integer:
      return "the integer " + std::to_string(node.integer);
    case Node::Kind::number:
      return "the number " + number_text(node.number);
    case Node::Kind::text:
      return "the string " + quote(node.text);
    case Node::Kind::list:
      return "a list of length " + std::to_string(node.items.size());
    case Node::Kind::table:
      return "a table";
    case Node::Kind::time:
      return "a date or time";
  }
  return "";
}

class Check {
 public:
  Check(const ValueRule& rule, const std::string& name, Diagnostics& diagnostics)
      : rule_(rule), name_(name), diagnostics_(diagnostics) {}

  std::optional<Value> value(const Node& node) {
    if (is_planned(node)) return std::nullopt;
    using Type = ValueType;
    const auto wants = [&](auto... types) { return ((rule_.type == types) || ...); };
    if (node.kind == Node::Kind::flag && wants(Type::flag, Type::flag_or_text)) return Value(node.flag);
    if (node.kind == Node::Kind::integer && wants(Type::integer, Type::text_or_integer)) return integer(node);
    if (node.kind == Node::Kind::text &&
        wants(Type::text, Type::text_or_integer, Type::text_or_number, Type::flag_or_text))
      return text(node);
    const bool may_be_table = !rule_.fields.empty();
    if (node.kind == Node::Kind::table && wants(Type::number) && may_be_table) return table(node);
    if (wants(Type::number, Type::text_or_number)) return number(node);
    if (node.kind == Node::Kind::list && wants(Type::texts)) return texts(node);
    const bool has_tables = !node.items.empty() && node.items[0].kind == Node::Kind::table;
    if (has_tables && wants(Type::numbers) && may_be_table) return tables(node);
    if (node.kind == Node::Kind::list && wants(Type::numbers, Type::integers)) return numbers(node);
    if (node.kind == Node::Kind::list && wants(Type::tables)) return tables(node);
    return refuse(node, node.kind == Node::Kind::text && wants(Type::texts) ? "write [" + quote(node.text) + "]" : "");
  }

 private:
  std::nullopt_t refuse(const Node& node, const std::string& hint = "") {
    diagnostics_.add(node.position, name_ + ": found " + found_text(node) + ", wanted " + wanted(rule_), hint);
    return std::nullopt;
  }

  bool is_planned(const Node& node) {
    std::string found = node.text;
    if (node.kind == Node::Kind::flag) found = node.flag ? "true" : "false";
    if (node.kind == Node::Kind::integer || node.kind == Node::Kind::number) found = "a number";
    if (std::find(rule_.planned.begin(), rule_.planned.end(), found) == rule_.planned.end()) return false;
    diagnostics_.add(node.position, name_ + ": " + (node.kind == Node::Kind::text ? quote(found) : found) +
                                        " is not supported yet, wanted " + wanted(rule_));
    return true;
  }

  bool in_range(double number) const {
    return (rule_.above ? number > rule_.min : number >= rule_.min) &&
           (rule_.below ? number < rule_.max : number <= rule_.max);
  }

  std::optional<Value> integer(const Node& node) {
    if (!in_range(double(node.integer))) return refuse(node);
    return Value(node.integer);
  }

  std::optional<double> number(const Node& node) {
    const bool may_be_fraction = rule_.type != ValueType::integers;
    if (node.kind != Node::Kind::integer && !(node.kind == Node::Kind::number && may_be_fraction)) return refuse(node);
    const double found = node.kind == Node::Kind::integer ? double(node.integer) : node.number;
    if (!std::isfinite(found) || !in_range(found)) return refuse(node);
    return found;
  }

  std::optional<Value> numbers(const Node& node) {
    if (rule_.count > 0 ? node.items.size() != rule_.count : node.items.empty() && !rule_.may_be_empty)
      return refuse(node);
    std::vector<double> found;
    for (const Node& item : node.items)
      if (const auto one = number(item)) found.push_back(*one);
    if (found.size() < node.items.size()) return std::nullopt;
    return Value(found);
  }

  std::optional<std::string> text(const Node& node) {
    const auto synonym = std::find_if(rule_.synonyms.begin(), rule_.synonyms.end(),
                                      [&](const auto& one) { return one.first == node.text; });
    const std::string& found = synonym == rule_.synonyms.end() ? node.text : synonym->second;
    const bool known =
        rule_.choices.empty() || std::find(rule_.choices.begin(), rule_.choices.end(), found) != rule_.choices.end();
    if (!known) {
      const std::string nearest = nearest_name(node.text, rule_.choices);
      return refuse(node, nearest.empty() ? "" : "did you mean " + quote(nearest) + "?");
    }
    if (node.text.empty() && !rule_.may_be_empty) return refuse(node);
    // C functions would truncate the text at the NUL.
    if (node.text.find('\0') != std::string::npos) return refuse(node, "a string must not contain NUL");
    return found;
  }

  std::optional<Value> texts(const Node& node) {
    if (node.items.empty() && !rule_.may_be_empty) return refuse(node);
    std::vector<std::string> found;
    bool good = true;
    for (const Node& item : node.items) {
      const auto one = item.kind == Node::Kind::text ? text(item) : refuse(item);
      good = good && one;
      if (one) found.push_back(*one);
    }
    if (!good) return std::nullopt;
    return Value(found);
  }

  std::optional<Value> tables(const Node& node) {
    const size_t before = diagnostics_.count();
    std::vector<Fields> found;
    for (const Node& item : node.items) {
      if (item.kind == Node::Kind::table)
        found.push_back(fields(item));
      else
        refuse(item);
    }
    if (diagnostics_.count() > before) return std::nullopt;
    return Value(found);
  }

  std::optional<Value> table(const Node& node) {
    const size_t before = diagnostics_.count();
    Fields found = fields(node);
    if (diagnostics_.count() > before) return std::nullopt;
    return Value(found);
  }

  Fields fields(const Node& table) {
    Fields found;
    const std::vector<std::string> names = field_names(rule_);
    for (const Entry& entry : table.entries) {
      const auto known = std::find(names.begin(), names.end(), entry.key);
      if (known == names.end()) {
        diagnostics_.add(entry.position, name_ + ": unknown key " + quote(entry.key),
                         "known keys: " + join_names(names));
        continue;
      }
      const ValueRule& rule = rule_.fields[size_t(known - names.begin())].second;
      const auto value = check_value(entry.value, rule, name_ + "." + entry.key, diagnostics_);
      if (!value) continue;
      if (const auto* number = std::get_if<double>(&*value))
        found.numbers[entry.key] = *number;
      else if (const auto* integer = std::get_if<int64_t>(&*value))
        found.numbers[entry.key] = double(*integer);
      else if (const auto* list = std::get_if<std::vector<double>>(&*value))
        found.lists[entry.key] = *list;
      else
        found.texts[entry.key] = std::get<std::string>(*value);
    }
    for (size_t i = 0; i < rule_.required_fields; ++i)
      if (!table.find(names[i])) diagnostics_.add(table.position, name_ + ": a table lacks " + names[i]);
    return found;
  }

  const ValueRule& rule_;
  const std::string& name_;
  Diagnostics& diagnostics_;
};

}  // namespace

std::optional<Value> check_value(const Node& node, const ValueRule& rule, const std::string& name,
                                 Diagnostics& diagnostics) {
  return Check(rule, name, diagnostics).value(node);
}

std::string range_text(const ValueRule& rule) {
  const bool from = std::isfinite(rule.min), to = std::isfinite(rule.max);
  if (from && to) {
    if (!rule.above && !rule.below) return bound_text(rule.min) + " to " + bound_text(rule.max);
    const std::string bounds = bound_text(rule.min) + ", " + bound_text(rule.max);
    return std::string(rule.above ? "(" : "[").append(bounds).append(rule.below ? ")" : "]");
  }
  if (from) return std::string(rule.above ? "above " : "at least ").append(bound_text(rule.min));
  if (to) return std::string(rule.below ? "below " : "at most ").append(bound_text(rule.max));
  return "";
}

std::string type_text(ValueType type) {
  // In the order of ValueType.
  constexpr const char* names[] = {"true or false",
                                   "integer",
                                   "number",
                                   "string",
                                   "string or integer",
                                   "string or number",
                                   "true, false or string",
                                   "list of strings",
                                   "list of numbers",
                                   "list of integers",
                                   "list of tables"};
  return names[size_t(type)];
}

std::string wanted(const ValueRule& rule) {
  if (!rule.choices.empty()) {
    if (rule.type == ValueType::flag_or_text) return "true, false, or " + join_names(in_quotes(rule.choices));
    const std::string list = rule.type == ValueType::texts ? "a list of values from " : "";
    if (rule.type == ValueType::text_or_integer || rule.type == ValueType::text_or_number) {
      std::string text;
      for (const std::string& choice : rule.choices) text += quote(choice) + ", ";
      return text + (rule.type == ValueType::text_or_integer ? "or an integer from " : "or a number from ") +
             range_text(rule);
    }
    if (rule.choices.size() == 1) return list + quote(rule.choices[0]);
    return list + (list.empty() ? "one of " : "") + join_names(in_quotes(rule.choices));
  }
  std::string text = type_text(rule.type);
  if (rule.type == ValueType::flag && !rule.planned.empty()) text = "false";
  if (rule.type == ValueType::integer) text = "an integer";
  if (rule.type == ValueType::number) text = "a number";
  if (rule.type == ValueType::number && !rule.fields.empty())
    text = "a number, or a table of " + join_names(field_names(rule)) + ",";
  if (rule.type == ValueType::text) text = rule.may_be_empty ? "a string" : "a non-empty string";
  if (rule.type == ValueType::texts)
    text = rule.may_be_empty ? "a list of strings" : "a non-empty list of non-empty strings";
  if (rule.type == ValueType::numbers) text = rule.count == 2 ? "a list of two numbers" : "a list of numbers";
  if (rule.type == ValueType::numbers && !rule.fields.empty()) text += " or of tables";
  if (rule.type == ValueType::integers) text = "a list of integers";
  const std::string range = range_text(rule);
  if (range.empty()) return text;
  const bool interval = range[0] == '(' || range[0] == '[';
  return text + (interval ? " in " : range.find(" to ") != std::string::npos ? " from " : " ") + range;
}

std::string toml_text(const Value& value) {
  struct Print {
    std::string operator()(bool flag) const { return flag ? "true" : "false"; }
    std::string operator()(int64_t integer) const { return std::to_string(integer); }
    std::string operator()(double number) const { return number_text(number); }
    std::string operator()(const std::string& text) const { return toml_string(text); }
    std::string operator()(const std::vector<std::string>& texts) const { return list_text(texts, toml_string); }
    std::string operator()(const std::vector<double>& numbers) const { return list_text(numbers, bound_text); }
    std::string operator()(const std::vector<Fields>& tables) const { return list_text(tables, *this); }
    std::string operator()(const Fields& fields) const {
      std::string text;
      const auto add = [&](const std::string& name, const std::string& value) {
        text.append(text.empty() ? "" : ", ").append(name).append(" = ").append(value);
      };
      for (const auto& [name, value] : fields.texts) add(name, toml_string(value));
      for (const auto& [name, value] : fields.numbers) add(name, bound_text(value));
      for (const auto& [name, value] : fields.lists) add(name, list_text(value, bound_text));
      return "{" + text + "}";
    }
  };
  return std::visit(Print{}, value);
}

}  // namespace wmtp
