#include "plugins/torch/describe.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/json_text.hpp"
#include "plugins/catalog.hpp"
#include "plugins/description_json.hpp"
#include "plugins/probe.hpp"
#include "plugins/torch/boundary.hpp"
#include "plugins/torch/loader.hpp"
#include "plugins/torch/options_binder.hpp"
#include "plugins/torch/signals.hpp"

namespace wmtp {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw Error(ExitStatus::plugin, reason); }

std::set<std::string> head_names(const Needs& needs) {
  std::set<std::string> names;
  for (const ValueHead& head : needs.heads) {
    if (head.kind != "linear" && head.kind != "mlp")
      refuse("its value head '" + head.name + "' has kind '" + head.kind + "'; available: linear, mlp");
    if (head.meaning != "value" && head.meaning != "score")
      refuse("its value head '" + head.name + "' has meaning '" + head.meaning + "'; available: value, score");
    if (!(head.dropout >= 0 && head.dropout < 1))
      refuse("its value head '" + head.name + "' has dropout " + printed("%g", head.dropout) +
             "; wanted a probability of at least 0 and below 1");
    if (!is_plugin_name(head.name) || !names.insert(head.name).second)
      refuse("its value head '" + head.name + "' needs a unique name of lower case letters, digits and '_'");
  }
  return names;
}

PluginNeeds plain(const Needs& needs) {
  PluginNeeds result;
  const std::set<std::string> heads = head_names(needs);
  for (const Signal signal : needs.reads) {
    result.reads.push_back(to_text(signal));
    if (needs.when == When::before && is_policy_signal(signal))
      refuse("it reads " + to_text(signal) +
             ", which is not available at When::before; choose When::token, head or all");
  }
  const bool reads_mass = std::ranges::count(needs.reads, Signal::policy_top_mass) > 0, has_k = needs.top_k > 0;
  if (reads_mass != has_k)
    refuse(has_k ? "it needs top_k = " + std::to_string(needs.top_k) + ", but does not read policy.top_mass"
                 : "it reads policy.top_mass with top_k = " + std::to_string(needs.top_k) + ", wanted at least 1");
  for (const ReferenceSignal& signal : needs.references) {
    if (signal.signal != Signal::reference_loss && signal.signal != Signal::reference_entropy)
      refuse("it reads " + to_text(signal.signal) +
             " of a named reference, wanted reference_loss or reference_entropy");
    if (!is_reference_name(signal.name))
      refuse("it reads a reference named '" + signal.name + "'; a name has at most 32 lower case letters, digits and " +
             "'_', the first a letter, and is not reference, policy, value or data");
    result.reads.push_back(to_text(signal));
  }
  for (const ValueSignal& value : needs.values) {
    result.reads.push_back(to_text(value));
    if (!value.is_frozen() && heads.count(value.head()) == 0)
      refuse("it reads " + to_text(value) + ", a value head that it does not declare");
    if (needs.when == When::token)
      refuse("it reads " + to_text(value) + ", which a TokenStep does not have; choose When::before, head or all");
  }
  for (const ValueHead& head : needs.heads) result.heads.push_back({head.name, head.kind, head.meaning});
  result.pairs = needs.pairs;
  result.prompts = needs.prompts;
  result.scores = needs.scores;
  result.signed_weights = needs.signed_weights;
  result.top_k = needs.top_k;
  return result;
}

static_assert(int(When::token) == int(WeighingMoment::token) && int(When::before) == int(WeighingMoment::before) &&
              int(When::head) == int(WeighingMoment::head) && int(When::all) == int(WeighingMoment::all));

PluginNeeds needs_of(const std::string& name, const AuxiliaryLoss& loss) {
  const LogitsNeeds needs = guarded(name, "needs", [&] { return loss.needs(); });
  if (needs.upcoming < 0) refuse("it needs " + std::to_string(needs.upcoming) + " upcoming tokens, wanted at least 0");
  PluginNeeds result;
  if (needs.reference) result.reads.push_back(reference_logits);
  if (needs.correct) result.reads.push_back(record_correct);
  return result;
}

template <class Pipeline>
PluginNeeds needs_of(const std::string& name, const Pipeline& pipeline) {
  const Needs needs = guarded(name, "needs", [&] { return pipeline.needs(); });
  PluginNeeds result = plain(needs);
  if constexpr (std::is_base_of_v<Weighting, Pipeline>) result.when = WeighingMoment(needs.when);
  return result;
}

/// The needs with the default options; nullopt if they are unknown.
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
  const std::unique_ptr<Base> plugin = create_instance<Base>(entry);
  OptionsRecorder recorder;
  guarded(name, "options", [&] { plugin->options(recorder); });
  description.options = recorder.specs();
  description.needs = default_needs(name, *plugin);
}

PluginDescription describe(const PluginEntry& entry) {
  PluginDescription description;
  description.role = role_of(entry);
  description.kind = kind_of(description.role);
  description.name = entry.name;
  description.version = entry.version;
  description.summary = entry.summary;
  if (!is_plugin_name(description.name))
    refuse("its name '" + description.name + "' must have at most 32 lower case letters, digits and '_'");
  if (entry.wrapper)
    describe_instance<Wrapper>(entry, description);
  else if (entry.weighting)
    describe_instance<Weighting>(entry, description);
  else if (entry.objective)
    describe_instance<Objective>(entry, description);
  else if (entry.auxiliary_loss)
    describe_instance<AuxiliaryLoss>(entry, description);
  else
    describe_instance<Adapter>(entry, description);
  return description;
}

/// The needs of a plugin created with its options; throws OptionError if it refuses one.
PluginNeeds needs_with_options(const PluginSetting& plugin, const PluginSetting* inner) {
  const std::string& name = plugin.description.name;
  if (plugin.description.kind == PluginKind::adapter) {
    create_adapter(plugin.description, plugin.options);
    return {};
  }
  if (plugin.description.role == PluginRole::auxiliary_loss)
    return needs_of(name, *create_auxiliary_loss(plugin.description, plugin.options));
  if (plugin.description.role == PluginRole::objective)
    return needs_of(name, *create_objective(plugin.description, plugin.options));
  // The inner plugin's needs first, so that its refusals are not attributed to the outer one.
  if (inner) needs_of(inner->description.name, *create_weighting(*inner, nullptr));
  return needs_of(name, *create_weighting(plugin, inner));
}

/// The mistake that the user can fix: in one of the plugin's own options.
OptionMistake mistake_of(const OptionError& error, const PluginSetting& plugin, const PluginSetting* inner) {
  const bool is_inner_option = inner && error.plugin() == inner->description.name;
  const std::vector<OptionSpec> stated = describe(load_plugin((is_inner_option ? *inner : plugin).description)).options;
  const auto is_meant = [&](const OptionSpec& option) { return option.name == error.option(); };
  if (std::none_of(stated.begin(), stated.end(), is_meant)) throw error;
  return {is_inner_option, error.option(), error.message(), error.at()};
}

}  // namespace

std::string check_plugin_options(const std::string& request) {
  const auto json = Json::parse(request);
  const PluginSetting plugin = json.at("plugin");
  std::optional<PluginSetting> inner;
  if (json.contains("inner")) inner = json["inner"].get<PluginSetting>();
  const PluginSetting* const wrapped = inner ? &*inner : nullptr;
  PluginCheckResult result;
  try {
    result.needs = needs_with_options(plugin, wrapped);
  } catch (const OptionError& error) {
    result.mistake = mistake_of(error, plugin, wrapped);
  }
  return dumped(Json(result));
}

std::string describe_plugin_file(const std::string& file) {
  if (file == probe_built_in_file) {
    Json all = Json::array();
    for (const PluginEntry* entry : detail::BuiltIn::all()) all.push_back(describe(*entry));
    return all.dump();
  }
  const PluginEntry& entry = open_plugin(file);
  try {
    return Json(describe(entry)).dump();
  } catch (const Error& error) {
    throw Error(error.status(), file + ": " + error.what());
  }
}

}  // namespace wmtp
