#include "core/plugins/description_json.hpp"

#include <algorithm>
#include <stdexcept>

namespace wmtp {

namespace {

using nlohmann::json;
using Type = OptionSpec::Type;
constexpr Type all_types[] = {Type::number, Type::integer, Type::flag, Type::text, Type::texts};

OptionValue value_from_json(Type type, const json& in) {
  switch (type) {
    case Type::number:
      return in.get<double>();
    case Type::integer:
      return in.get<int64_t>();
    case Type::flag:
      return in.get<bool>();
    case Type::text:
      return in.get<std::string>();
    case Type::texts:
      return in.get<std::vector<std::string>>();
  }
  throw std::invalid_argument("unknown option type");
}

/// The type of an option when its description is not available.
Type type_of(const json& value) {
  if (value.is_boolean()) return Type::flag;
  if (value.is_number_integer()) return Type::integer;
  if (value.is_number()) return Type::number;
  return value.is_string() ? Type::text : Type::texts;
}

json value_to_json(const OptionValue& value) {
  return std::visit([](const auto& held) { return json(held); }, value);
}

}  // namespace

void to_json(json& out, const OptionSpec& option) {
  out = {{"name", option.name},
         {"type", to_string(option.type)},
         {"default", value_to_json(option.default_value)},
         {"min", option.min},
         {"max", option.max},
         {"choices", option.choices},
         {"help", option.help}};
}

void from_json(const json& in, OptionSpec& option) {
  const std::string key = in.at("type");
  const auto type = std::ranges::find_if(all_types, [&](Type t) { return key == to_string(t); });
  if (type == std::end(all_types)) throw std::invalid_argument("unknown option type '" + key + "'");
  option.type = *type;
  option.default_value = value_from_json(*type, in.at("default"));
  in.at("name").get_to(option.name);
  in.at("min").get_to(option.min);
  in.at("max").get_to(option.max);
  in.at("choices").get_to(option.choices);
  in.at("help").get_to(option.help);
}

void to_json(json& out, const PluginSetting& setting) {
  const PluginDescription& description = setting.description;
  json options = json::object();
  for (const auto& [name, value] : setting.options) options[name] = value_to_json(value);
  out = {{"kind", description.kind},       {"role", description.role}, {"name", description.name},
         {"version", description.version}, {"path", description.path}, {"sha256", description.sha256},
         {"options", std::move(options)}};
}

void from_json(const json& in, PluginSetting& setting) {
  PluginDescription& description = setting.description;
  in.at("kind").get_to(description.kind);
  in.at("role").get_to(description.role);
  in.at("name").get_to(description.name);
  in.at("version").get_to(description.version);
  in.at("path").get_to(description.path);
  in.at("sha256").get_to(description.sha256);
  for (const auto& [name, value] : in.at("options").items())
    setting.options[name] = value_from_json(type_of(value), value);
}

}  // namespace wmtp
