#include "engine/plugin_runtime/describe.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "core/plugins/catalog.hpp"
#include "core/plugins/description_json.hpp"
#include "core/plugins/probe.hpp"
#include "engine/plugin_runtime/boundary.hpp"
#include "engine/plugin_runtime/loader.hpp"
#include "engine/plugin_runtime/options_binder.hpp"

namespace wmtp {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw Error(ExitStatus::plugin, reason); }

/// "policy.loss", after a check that it is a signal of the sdk's list.
std::string read_text(const Read& read, const std::set<std::string>& heads) {
  const std::string text = read.model + "." + read.what;
  for (const char* known : {"policy.loss", "policy.entropy", "reference.loss", "reference.entropy", "value.value"}) {
    if (text == known) return text;
  }
  if (read.model == "policy" && read.what.starts_with("value:")) {
    if (heads.count(read.what.substr(6)) == 0) refuse("it reads '" + text + "', a value head that it does not declare");
    return text;
  }
  refuse("it reads '" + text + "', but there are loss and entropy of policy and reference, value.value, and " +
         "policy.value:NAME of a head that it declares");
}

std::set<std::string> head_names(const Needs& needs) {
  std::set<std::string> names;
  for (const ValueHead& head : needs.heads) {
    if (head.kind != "linear" && head.kind != "mlp")
      refuse("its value head '" + head.name + "' is '" + head.kind + "'; there are linear and mlp");
    if (head.meaning != "value" && head.meaning != "score")
      refuse("its value head '" + head.name + "' means '" + head.meaning + "'; there are value and score");
    if (!is_plugin_name(head.name) || !names.insert(head.name).second) {
      refuse("its value head '" + head.name + "' has no name of its own in lower case letters, digits and '_'");
    }
  }
  return names;
}

PluginNeeds plain(const Needs& needs) {
  PluginNeeds texts;
  const std::set<std::string> heads = head_names(needs);
  for (const Read& read : needs.reads) {
    texts.reads.push_back(read_text(read, heads));
    // A token-wise weighting is called inside the loss; one that is called before the heads has no loss to read.
    const std::string& text = texts.reads.back();
    if (needs.when == When::before && (text == "policy.loss" || text == "policy.entropy")) {
      refuse("it reads " + text + ", which is not there at When::before; say When::token, head or all");
    }
  }
  for (const ValueHead& head : needs.heads)
    texts.heads.push_back(head.name + " (" + head.kind + (head.meaning == "score" ? ", score)" : ")"));
  texts.pairs = needs.pairs;
  texts.prompts = needs.prompts;
  texts.scores = needs.scores;
  return texts;
}

const char* to_text(When when) {
  switch (when) {
    case When::token:
      return "token";
    case When::before:
      return "before";
    case When::head:
      return "head";
    case When::all:
      return "all";
  }
  return "";
}

template <class Pipeline>
PluginNeeds needs_of(const std::string& name, const Pipeline& pipeline) {
  const Needs needs = guarded(name, "needs", [&] { return pipeline.needs(); });
  PluginNeeds texts = plain(needs);
  if constexpr (std::is_base_of_v<Weighting, Pipeline>) texts.when = to_text(needs.when);
  return texts;
}

/// With the default options, where they say it.
template <class Base>
std::optional<PluginNeeds> default_needs(const std::string& name, const Base& plugin) {
  if constexpr (std::is_same_v<Base, Adapter>) {
    return PluginNeeds{};
  } else if constexpr (std::is_same_v<Base, Wrapper>) {
    return std::nullopt;
  } else {
    try {
      return needs_of(name, plugin);
    } catch (const OptionError&) {
      return std::nullopt;
    }
  }
}

template <class Base>
void describe_instance(const PluginEntry& entry, PluginDescription& description) {
  const std::string name = entry.name;
  const std::unique_ptr<Base> plugin(guarded(name, "constructor", [&] { return static_cast<Base*>(entry.create()); }));
  OptionsRecorder recorder;
  guarded(name, "options", [&] { plugin->options(recorder); });
  description.options = recorder.specs();
  description.needs = default_needs(name, *plugin);
}

PluginDescription describe(const PluginEntry& entry) {
  PluginDescription description;
  description.kind = entry.kind;
  description.role = entry.role;
  description.name = entry.name;
  description.version = entry.version;
  description.summary = entry.summary;
  if (!is_plugin_name(description.name)) {
    refuse("its name '" + description.name + "' is not lower case letters, digits and '_', at most 32");
  }
  const std::string what = description.kind + " " + description.role;
  if (what == "pipeline weighting")
    describe_instance<Weighting>(entry, description);
  else if (what == "pipeline wrapper")
    describe_instance<Wrapper>(entry, description);
  else if (what == "pipeline objective")
    describe_instance<Objective>(entry, description);
  else if (what == "adapter adapter")
    describe_instance<Adapter>(entry, description);
  else
    refuse("its entry says '" + what + "', which this host does not know");
  return description;
}

/// The needs of a plugin as it is made with its options; an OptionError when it refuses one.
PluginNeeds needs_with_options(const PluginSetting& plugin, const PluginSetting* inner) {
  const std::string& name = plugin.description.name;
  if (plugin.description.kind == "adapter") {
    create_adapter(plugin.description, plugin.options);
    return {};
  }
  if (plugin.description.role == "objective")
    return needs_of(name, *create_objective(plugin.description, plugin.options));
  // First the inner one's own, so that what it refuses is not laid to the outer one.
  if (inner) needs_of(inner->description.name, *create_weighting(*inner, nullptr));
  return needs_of(name, *create_weighting(plugin, inner));
}

/// The mistake that the user can mend: in one of the plugin's own options.
OptionMistake mistake_of(const OptionError& error, const PluginSetting& plugin, const PluginSetting* inner) {
  const bool of_inner = inner && error.plugin() == inner->description.name;
  const std::vector<OptionSpec> stated = describe(load_plugin((of_inner ? *inner : plugin).description)).options;
  const auto is_meant = [&](const OptionSpec& option) { return option.name == error.option(); };
  if (std::none_of(stated.begin(), stated.end(), is_meant)) throw error;
  return {of_inner, error.option(), error.message(), error.at()};
}

}  // namespace

std::string check_plugin_options(const std::string& request) {
  const auto json = nlohmann::json::parse(request);
  const PluginSetting plugin = setting_from_json(json.at("plugin"));
  std::optional<PluginSetting> inner;
  if (json.contains("inner")) inner = setting_from_json(json["inner"]);
  const PluginSetting* const wrapped = inner ? &*inner : nullptr;
  PluginAnswer answer;
  try {
    answer.needs = needs_with_options(plugin, wrapped);
  } catch (const OptionError& error) {
    answer.mistake = mistake_of(error, plugin, wrapped);
  }
  return to_json(answer).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string describe_plugin_file(const std::string& file) {
  if (file == probe_built_in_file) {
    nlohmann::json all = nlohmann::json::array();
    for (const PluginEntry* entry : detail::BuiltIn::all()) all.push_back(to_json(describe(*entry)));
    return all.dump();
  }
  const PluginEntry& entry = open_plugin(file);
  try {
    return to_json(describe(entry)).dump();
  } catch (const Error& error) {
    throw Error(error.status(), file + ": " + error.what());
  }
}

}  // namespace wmtp
