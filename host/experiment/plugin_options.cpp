// See plugin_options.hpp.
#include "experiment/plugin_options.hpp"

#include <algorithm>

#include "base/text.hpp"
#include "experiment/value_rule.hpp"

namespace wmtp {
namespace {

ValueRule rule_of(const OptionSpec& option) {
  ValueRule rule;
  switch (option.type) {
    case OptionSpec::Type::number:
      rule.type = ValueType::number;
      break;
    case OptionSpec::Type::integer:
      rule.type = ValueType::integer;
      break;
    case OptionSpec::Type::flag:
      rule.type = ValueType::flag;
      break;
    case OptionSpec::Type::text:
      rule.type = ValueType::text;
      break;
    case OptionSpec::Type::texts:
      rule.type = ValueType::texts;
      break;
  }
  if (option.min) rule.min = *option.min;
  if (option.max) rule.max = *option.max;
  rule.choices = option.choices;
  return rule;
}

OptionValue to_option(const Value& value) {
  return std::visit(
      [](const auto& held) -> OptionValue {
        if constexpr (std::is_constructible_v<OptionValue, decltype(held)>)
          return held;
        else
          throw Error(ExitStatus::bug, "an option of a plugin has a type that no plugin can declare");
      },
      value);
}

// A default may be infinite, and what the host prints as the resolved experiment must be readable again.
bool is_the_default(const Node& node, const OptionSpec& option) {
  const double* number = std::get_if<double>(&option.default_value);
  return number && node.kind == Node::Kind::number && node.number == *number;
}

void bind_option(const OptionSpec& option, const std::string& table, const Entry& entry, OptionValues& options,
                 Bound& bound, Diagnostics& diagnostics) {
  if (is_the_default(entry.value, option)) return;
  const auto value = check_value(entry.value, rule_of(option), "[" + table + "] " + option.name, diagnostics);
  if (value)
    options[option.name] = to_option(*value);
  else
    bound.bad.insert(table + "." + option.name);
}

}  // namespace

std::vector<std::string> bind_plugin(const std::string& kind, const Node& document, const DescribePlugin& describe,
                                     PluginChoice& choice, Bound& bound, Diagnostics& diagnostics) {
  const std::string plugin_key = kind + ".plugin";
  if (!bound.good({kind.c_str(), plugin_key.c_str()})) return {};
  PluginDescription description;
  try {
    description = describe(kind, choice.plugin);
  } catch (const Error& error) {
    if (error.status() != ExitStatus::usage && error.status() != ExitStatus::plugin) throw;
    diagnostics.add(bound.place(plugin_key), error.what(), "", error.status());
    bound.bad.insert(plugin_key);
    return {};
  }
  std::vector<std::string> names;
  for (const OptionSpec& option : description.options) {
    names.push_back(option.name);
    const auto* integer = std::get_if<int64_t>(&option.default_value);
    const bool widened = integer && option.type == OptionSpec::Type::number;
    choice.options[option.name] = widened ? OptionValue(static_cast<double>(*integer)) : option.default_value;
  }
  const auto table = std::find_if(document.entries.begin(), document.entries.end(),
                                  [&](const Entry& entry) { return entry.key == kind; });
  if (table == document.entries.end()) return description.reads;
  for (const Entry& entry : table->value.entries) {
    if (entry.key == "plugin") continue;
    const auto option = std::find(names.begin(), names.end(), entry.key);
    if (option != names.end()) {
      const auto& spec = description.options[static_cast<size_t>(option - names.begin())];
      bind_option(spec, kind, entry, choice.options, bound, diagnostics);
      continue;
    }
    const std::string nearest = nearest_name(entry.key, names);
    std::string hint = names.empty() ? "it has no options" : "its options: " + join_names(names);
    if (!nearest.empty()) hint = "did you mean " + quote(nearest) + "?";
    diagnostics.add(entry.place, "unknown option " + quote(entry.key) + " of " + kind + " " + quote(choice.plugin),
                    hint);
  }
  return description.reads;
}

}  // namespace wmtp
