// Declares keys of the schema: `key(name, AT(train.steps), help)`. The value has the type of the member of Experiment.
// Also declares the parts of the schema, one per schema*.cpp.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "experiment/schema.hpp"

#define AT(member) \
  [](auto& e) -> auto& { return e.member; }
#define IN(accessor, member) \
  [accessor](auto& e) -> auto& { return accessor(e).member; }

namespace wmtp {

/// A table that is given if the file contains it, which sets `flag`. `kinds`: the kinds of data that allow it.
template <class Flag>
SchemaTable optional_table(SchemaTable table, Flag flag, std::vector<DataKind> kinds = {}) {
  table.is_given = flag;
  table.mark_given = [flag](Experiment& e) { flag(e) = true; };
  table.kinds = std::move(kinds);
  return table;
}

std::vector<SchemaTable> model_tables();
/// [references.NAME] and the tables in it.
std::vector<SchemaTable> reference_tables(const std::string& name);
std::vector<SchemaTable> data_tables();
SchemaTable validation_table();

template <class T>
struct RemoveOptional {
  using Type = T;
};
template <class T>
struct RemoveOptional<std::optional<T>> {
  using Type = T;
};
template <class T>
constexpr bool is_optional = !std::is_same_v<T, typename RemoveOptional<T>::Type>;

template <class Member>
ValueRule rule_for() {
  using T = typename RemoveOptional<Member>::Type;
  ValueRule rule;
  if constexpr (std::is_same_v<T, bool>)
    rule.type = ValueType::flag;
  else if constexpr (std::is_same_v<T, int64_t>)
    rule.type = ValueType::integer;
  else if constexpr (std::is_same_v<T, double>)
    rule.type = ValueType::number;
  else if constexpr (std::is_same_v<T, std::vector<std::string>>)
    rule.type = ValueType::texts;
  else if constexpr (std::is_same_v<T, std::vector<double>>)
    rule.type = ValueType::numbers;
  else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
    rule.type = ValueType::integers;
  else if constexpr (std::is_enum_v<T>)
    rule.choices = all_names<T>();
  if constexpr (std::is_same_v<T, Precision>)
    rule.synonyms = {{"float32", "fp32"}, {"bfloat16", "bf16"}, {"float16", "fp16"}};
  return rule;
}

template <class Member>
std::optional<Value> to_value(const Member& member) {
  if constexpr (is_optional<Member>)
    return member ? to_value(*member) : std::nullopt;
  else if constexpr (std::is_enum_v<Member>)
    return Value(std::string(to_string(member)));
  else if constexpr (std::is_same_v<Member, std::vector<int64_t>>)
    return Value(std::vector<double>(member.begin(), member.end()));
  else
    return Value(member);
}

template <class Member>
void from_value(const Value& value, Member& member) {
  using T = typename RemoveOptional<Member>::Type;
  if constexpr (std::is_enum_v<T>)
    member = from_name<T>(std::get<std::string>(value)).value();
  else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
    member.assign(std::get<std::vector<double>>(value).begin(), std::get<std::vector<double>>(value).end());
  else
    member = std::get<T>(value);
}

template <class Accessor>
Key key(std::string name, Accessor accessor, std::string help) {
  using Member = std::remove_cvref_t<decltype(accessor(std::declval<Experiment&>()))>;
  Key result;
  result.name = std::move(name);
  result.help = std::move(help);
  result.rule = rule_for<Member>();
  result.get = [accessor](const Experiment& e) { return to_value(accessor(e)); };
  result.set = [accessor](Experiment& e, const Value& value) { from_value(value, accessor(e)); };
  return result;
}

}  // namespace wmtp
