#include "core/plugins/description_json.hpp"

#include <algorithm>
#include <iterator>
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

nlohmann::json option_to_json(const OptionSpec& option) {
  nlohmann::json json{{"name", option.name}, {"type", to_string(option.type)}, {"help", option.help}};
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
  const auto type =
      std::find_if(std::begin(all_types), std::end(all_types), [&](Type t) { return key == to_string(t); });
  if (type == std::end(all_types)) throw std::invalid_argument("unknown option type '" + key + "'");
  option.type = *type;
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
  return {
      {"kind", description.kind},       {"role", description.role},
      {"name", description.name},       {"version", description.version},
      {"summary", description.summary}, {"needs", description.needs ? to_json(*description.needs) : nlohmann::json()},
      {"path", description.path},       {"sha256", description.sha256},
      {"options", std::move(options)}};
}

PluginDescription description_from_json(const nlohmann::json& json) {
  PluginDescription description;
  description.kind = json.at("kind").get<std::string>();
  description.role = json.at("role").get<std::string>();
  description.name = json.at("name").get<std::string>();
  description.version = json.at("version").get<std::string>();
  description.summary = json.at("summary").get<std::string>();
  if (!json.at("needs").is_null()) description.needs = needs_from_json(json["needs"]);
  description.path = json.at("path").get<std::string>();
  description.sha256 = json.at("sha256").get<std::string>();
  for (const nlohmann::json& option : json.at("options")) description.options.push_back(option_from_json(option));
  return description;
}

nlohmann::json to_json(const PluginNeeds& needs) {
  return {{"when", needs.when},   {"reads", needs.reads},     {"heads", needs.heads},
          {"pairs", needs.pairs}, {"prompts", needs.prompts}, {"scores", needs.scores}};
}

PluginNeeds needs_from_json(const nlohmann::json& json) {
  PluginNeeds needs;
  json.at("when").get_to(needs.when);
  json.at("reads").get_to(needs.reads);
  json.at("heads").get_to(needs.heads);
  json.at("pairs").get_to(needs.pairs);
  json.at("prompts").get_to(needs.prompts);
  json.at("scores").get_to(needs.scores);
  return needs;
}

nlohmann::json to_json(const PluginAnswer& answer) {
  if (!answer.mistake) return {{"needs", to_json(answer.needs)}};
  const OptionMistake& mistake = *answer.mistake;
  return {
      {"mistake",
       {{"of_inner", mistake.of_inner}, {"option", mistake.option}, {"message", mistake.message}, {"at", mistake.at}}}};
}

PluginAnswer answer_from_json(const nlohmann::json& json) {
  if (!json.contains("mistake")) return {needs_from_json(json.at("needs")), std::nullopt};
  const nlohmann::json& mistake = json["mistake"];
  return {{},
          OptionMistake{mistake.at("of_inner").get<bool>(), mistake.at("option").get<std::string>(),
                        mistake.at("message").get<std::string>(), mistake.at("at").get<int64_t>()}};
}

nlohmann::json to_json(const PluginSetting& setting) {
  const PluginDescription& description = setting.description;
  nlohmann::json options = nlohmann::json::object();
  for (const auto& [name, option] : setting.options)
    std::visit([&](const auto& value) { options[name] = value; }, option);
  return {{"kind", description.kind},       {"role", description.role}, {"name", description.name},
          {"version", description.version}, {"path", description.path}, {"sha256", description.sha256},
          {"options", std::move(options)}};
}

PluginSetting setting_from_json(const nlohmann::json& json) {
  PluginSetting setting;
  PluginDescription& description = setting.description;
  json.at("kind").get_to(description.kind);
  json.at("role").get_to(description.role);
  json.at("name").get_to(description.name);
  json.at("version").get_to(description.version);
  description.path = json.at("path").get<std::string>();
  json.at("sha256").get_to(description.sha256);
  for (const auto& [name, value] : json.at("options").items()) {
    OptionValue& option = setting.options[name];
    if (value.is_boolean())
      option = value.get<bool>();
    else if (value.is_number_integer())
      option = value.get<int64_t>();
    else if (value.is_number())
      option = value.get<double>();
    else if (value.is_string())
      option = value.get<std::string>();
    else
      option = value.get<std::vector<std::string>>();
  }
  return setting;
}

}  // namespace wmtp
