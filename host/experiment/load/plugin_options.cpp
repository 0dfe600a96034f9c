// Checks plugin options by the schemas that the plugins declare, then by the plugins themselves.
#include <algorithm>

#include "base/text.hpp"
#include "experiment/foreign_names.hpp"
#include "experiment/load/rules.hpp"
#include "experiment/schema.hpp"
#include "experiment/toml/toml_position.hpp"
#include "experiment/toml/value_rule.hpp"

namespace wmtp {
namespace {

ValueRule rule_for(const OptionSpec& option) {
  // In the order of OptionSpec::Type.
  constexpr ValueType types[] = {ValueType::number, ValueType::integer, ValueType::flag,
                                 ValueType::text,   ValueType::texts,   ValueType::number};
  ValueRule rule;
  rule.type = types[size_t(option.type)];
  if (option.min) rule.min = *option.min;
  if (option.max) rule.max = *option.max;
  rule.choices = option.choices;
  if (option.type == OptionSpec::Type::scheduled) {
    ValueRule number = rule, steps;
    steps.type = ValueType::integer;
    steps.min = 1;
    steps.max = 1e12;
    rule.fields = {{"from", number}, {"to", number}, {"steps", steps}};
    rule.required_fields = rule.fields.size();
  }
  return rule;
}

void bind_option(const OptionSpec& option, const std::string& table, const Entry& entry, PluginChoice& choice,
                 BoundExperiment& bound, Diagnostics& diagnostics) {
  const auto value = check_value(entry.value, rule_for(option), "[" + table + "] " + option.name, diagnostics);
  if (value) {
    choice.options[option.name] = *value;
    choice.given.insert(option.name);
  } else {
    bound.invalid_keys.insert(table + "." + option.name);
  }
}

const Node* table_in(const Node& document, const std::string& path) {
  const Node* node = &document;
  for (size_t from = 0; node && from <= path.size();) {
    const size_t dot = std::min(path.find('.', from), path.size());
    const Entry* entry = node->find(path.substr(from, dot - from));
    node = entry ? &entry->value : nullptr;
    from = dot + 1;
  }
  return node;
}

class PluginBinder {
 public:
  PluginBinder(const Node& document, const DescribePlugin& describe, const CheckPlugin& check, BoundExperiment& bound,
               Diagnostics& diagnostics)
      : document_(document), describe_(describe), check_(check), bound_(bound), diagnostics_(diagnostics) {}

  std::optional<PluginNeeds> pipeline() {
    Experiment& e = bound_.experiment;
    auto outer = bind("pipeline", PluginKind::pipeline, e.pipeline);
    if (!e.inner) {
      if (!outer) return std::nullopt;
      if (outer->description.role != PluginRole::wrapper) return check_options("pipeline", *outer, nullptr);
      diagnostics_.add(bound_.position("pipeline.plugin"),
                       quote(e.pipeline.plugin) + " is a wrapper, but there is no [pipeline.inner]",
                       "add [pipeline.inner] with plugin = \"...\" and its options");
      return std::nullopt;
    }
    auto inner = bind("pipeline.inner", PluginKind::pipeline, *e.inner);
    if (!is_wrapper_of_weighting(outer, inner) || !outer || !inner) return std::nullopt;
    return check_options("pipeline", *outer, &*inner);
  }

  void adapter() {
    if (auto setting = bind("adapter", PluginKind::adapter, bound_.experiment.adapter))
      check_options("adapter", *setting, nullptr);
  }

  /// What it reads is read by the pipeline's call of the same token, so `needs` gets it too.
  void auxiliary_loss(std::optional<PluginNeeds>& needs) {
    if (!bound_.experiment.auxiliary_loss) return;
    const auto setting = bind("auxiliary_loss", PluginKind::auxiliary_loss, *bound_.experiment.auxiliary_loss);
    const auto own = setting ? check_options("auxiliary_loss", *setting, nullptr) : std::nullopt;
    if (!own) {  // whether [reference] is read is unknown
      needs.reset();
    } else if (needs) {
      needs->reads.insert(needs->reads.end(), own->reads.begin(), own->reads.end());
    }
  }

 private:
  /// The plugin with its options; nullopt after an error in this table.
  std::optional<PluginSetting> bind(const std::string& table, PluginKind kind, PluginChoice& choice) {
    const std::string plugin_key = key_path(table, "plugin");
    if (!bound_.all_valid({table.c_str(), plugin_key.c_str()})) return std::nullopt;
    PluginSetting setting;
    try {
      setting.description = describe_(kind, choice.plugin);
    } catch (const Error& error) {
      refuse_plugin(table, error);
      return std::nullopt;
    }
    for (const OptionSpec& option : setting.description.options) choice.options[option.name] = option.default_value;
    const size_t before = diagnostics_.count();
    if (const Node* node = table_in(document_, table)) bind_entries(table, *node, setting.description, choice);
    if (diagnostics_.count() != before) return std::nullopt;
    setting.options = given_options(choice);
    return setting;
  }

  void bind_entries(const std::string& table, const Node& node, const PluginDescription& description,
                    PluginChoice& choice) {
    std::vector<std::string> names;
    for (const OptionSpec& option : description.options) names.push_back(option.name);
    for (const Entry& entry : node.entries) {
      if (find_key(*find_table(table), entry.key) || find_table(key_path(table, entry.key))) continue;
      const auto option = std::find(names.begin(), names.end(), entry.key);
      if (option != names.end()) {
        const auto& spec = description.options[size_t(option - names.begin())];
        bind_option(spec, table, entry, choice, bound_, diagnostics_);
        continue;
      }
      const std::string nearest = nearest_name(entry.key, names);
      std::string hint = names.empty() ? "it has no options" : "its options: " + join_names(names);
      if (const std::string meant = lora_option_meant_by(entry.key);
          description.kind == PluginKind::adapter && !meant.empty())
        hint = choice.plugin == lora_adapter ? "it is called " + quote(meant)
                                             : "adapter.plugin = " + quote(lora_adapter) + " has it as " + quote(meant);
      else if (!nearest.empty())
        hint = "did you mean " + quote(nearest) + "?";
      diagnostics_.add(
          entry.position,
          "unknown option " + quote(entry.key) + " of " + to_string(description.kind) + " " + quote(choice.plugin),
          hint);
    }
  }

  bool is_wrapper_of_weighting(const std::optional<PluginSetting>& outer, const std::optional<PluginSetting>& inner) {
    const size_t before = diagnostics_.count();
    if (outer && outer->description.role != PluginRole::wrapper) {
      diagnostics_.add(bound_.keys.at("pipeline.inner"),
                       "pipeline " + quote(outer->description.name) + " is not a wrapper, so it takes no inner plugin",
                       "remove [pipeline.inner], or set a wrapper as [pipeline] plugin");
    }
    if (inner && inner->description.role != PluginRole::weighting) {
      diagnostics_.add(bound_.position("pipeline.inner.plugin"),
                       "found the " + std::string(to_string(inner->description.role)) + " " +
                           quote(inner->description.name) + ", wanted a weighting");
    }
    return diagnostics_.count() == before;
  }

  std::optional<PluginNeeds> check_options(const std::string& table, const PluginSetting& plugin,
                                           const PluginSetting* inner) {
    const bool is_described = !inner && plugin.description.needs && plugin.options.empty();
    if (is_described || !check_) return plugin.description.needs;
    try {
      const PluginCheckResult result = check_(plugin, inner);
      if (!result.mistake) return result.needs;
      const bool is_inner_option = result.mistake->is_inner_option && inner;
      refuse_option(is_inner_option ? table + ".inner" : table, is_inner_option ? inner->options : plugin.options,
                    *result.mistake);
    } catch (const Error& error) {
      refuse_plugin(table, error);
    }
    return std::nullopt;
  }

  void refuse_plugin(const std::string& table, const Error& error) {
    if (error.status() != ExitStatus::usage && error.status() != ExitStatus::plugin) throw;
    const std::string key = key_path(table, "plugin");
    diagnostics_.add(bound_.position(key), error.what(), "", error.status());
    bound_.invalid_keys.insert(key);
  }

  void refuse_option(const std::string& table, const OptionValues& options, const OptionMistake& mistake) {
    const std::string key = key_path(table, mistake.option);
    TomlPosition position = bound_.position(key);
    const auto value = options.find(mistake.option);
    const auto* text = value == options.end() ? nullptr : std::get_if<std::string>(&value->second);
    if (text && mistake.at >= 0 && bound_.has(key)) {
      const size_t at = std::min(size_t(mistake.at), text->size());
      position = position_in_text(diagnostics_.source_text(position.source), position, at);
    }
    diagnostics_.add(position, "[" + table + "] " + mistake.option + ": " + on_one_line(mistake.message));
    bound_.invalid_keys.insert(key);
  }

  const Node& document_;
  const DescribePlugin& describe_;
  const CheckPlugin& check_;
  BoundExperiment& bound_;
  Diagnostics& diagnostics_;
};

}  // namespace

std::optional<PluginNeeds> bind_plugins(const Node& document, const DescribePlugin& describe, const CheckPlugin& check,
                                        BoundExperiment& bound, Diagnostics& diagnostics) {
  PluginBinder binder(document, describe, check, bound, diagnostics);
  auto needs = binder.pipeline();
  binder.auxiliary_loss(needs);
  binder.adapter();
  return needs;
}

}  // namespace wmtp
