#include "plugin/description_json.hpp"

#include <stdexcept>

namespace wmtp {
namespace {

using Type = OptionSpec::Type;
constexpr Type all_types[] = {Type::number, Type::integer, Type::flag, Type::text, Type::texts};

OptionValue value_from_json(Type type, const nlohmann::json& json) {
  switch (type) {
    case Type::number:
      return json.get<double>();
    case Type::integer:
      return json.get<int64_t>();
    case Type::flag:
      return json.get<bool>();
    case Type::text:
      return json.get<std::string>();
    case Type::texts:
      return json.get<std::vector<std::string>>();
  }
  throw std::invalid_argument("unknown option type");
}

// Own words instead of to_string(OptionSpec::Type): a cache must not change its meaning with a text for people.
const char* type_key(Type type) {
  switch (type) {
    case Type::number:
      return "number";
    case Type::integer:
      return "integer";
    case Type::flag:
      return "flag";
    case Type::text:
      return "text";
    case Type::texts:
      return "texts";
  }
  return "";
}

nlohmann::json option_to_json(const OptionSpec& option) {
  nlohmann::json json{{"name", option.name}, {"type", type_key(option.type)}, {"help", option.help}};
  std::visit([&](const auto& value) { json["default"] = value; }, option.default_value);
  if (option.min) json["min"] = *option.min;
  if (option.max) json["max"] = *option.max;
  if (!option.choices.empty()) json["choices"] = option.choices;
  return json;
}

OptionSpec option_from_json(const nlohmann::json& json) {
  OptionSpec option;
  option.name = json.at("name").get<std::string>();
  option.help = json.at("help").get<std::string>();
  const std::string key = json.at("type").get<std::string>();
  bool known = false;
  for (Type type : all_types) {
    if (key == type_key(type)) option.type = type, known = true;
  }
  if (!known) throw std::invalid_argument("unknown option type '" + key + "'");
  option.default_value = value_from_json(option.type, json.at("default"));
  if (json.contains("min")) option.min = json["min"].get<double>();
  if (json.contains("max")) option.max = json["max"].get<double>();
  if (json.contains("choices")) option.choices = json["choices"].get<std::vector<std::string>>();
  return option;
}

}  // namespace

nlohmann::json to_json(const PluginDescription& description) {
  nlohmann::json options = nlohmann::json::array();
  for (const OptionSpec& option : description.options) options.push_back(option_to_json(option));
  return {{"kind", description.kind},       {"role", description.role},       {"name", description.name},
          {"version", description.version}, {"summary", description.summary}, {"reads", description.reads},
          {"path", description.path},       {"sha256", description.sha256},   {"options", std::move(options)}};
}

PluginDescription description_from_json(const nlohmann::json& json) {
  PluginDescription description;
  description.kind = json.at("kind").get<std::string>();
  description.role = json.at("role").get<std::string>();
  description.name = json.at("name").get<std::string>();
  description.version = json.at("version").get<std::string>();
  description.summary = json.at("summary").get<std::string>();
  description.reads = json.at("reads").get<std::vector<std::string>>();
  description.path = json.at("path").get<std::string>();
  description.sha256 = json.at("sha256").get<std::string>();
  for (const nlohmann::json& option : json.at("options")) description.options.push_back(option_from_json(option));
  return description;
}

}  // namespace wmtp
