#include "plugin/describe.hpp"

#include <memory>
#include <set>

#include "base/error.hpp"
#include "plugin/boundary.hpp"
#include "plugin/catalog.hpp"
#include "plugin/description_json.hpp"
#include "plugin/loader.hpp"
#include "plugin/options_binder.hpp"
#include "plugin/probe.hpp"

namespace wmtp {
namespace {

[[noreturn]] void refuse(const std::string& reason) { throw Error(ExitStatus::plugin, reason); }

/// "policy.loss", after a check that the host can give it.
std::string read_text(const Read& read, const std::set<std::string>& heads) {
  const std::string text = read.model + "." + read.what;
  if (read.model != "policy" && read.model != "reference") {
    refuse("it reads '" + text + "', but the models are policy and reference");
  }
  if (read.what == "loss") return text;
  if (read.what.starts_with("value:") && read.model == "policy") {
    if (heads.count(read.what.substr(6)) == 0) refuse("it reads '" + text + "', a value head that it does not declare");
    return text;
  }
  refuse("it reads '" + text + "', but there are loss and value:NAME (of the policy)");
}

std::vector<std::string> read_texts(const Needs& needs) {
  std::set<std::string> heads;
  for (const ValueHead& head : needs.heads) {
    if (head.kind != "linear") refuse("its value head '" + head.name + "' is '" + head.kind + "'; there is linear");
    if (!is_plugin_name(head.name) || !heads.insert(head.name).second) {
      refuse("its value head '" + head.name + "' has no name of its own in lower case letters, digits and '_'");
    }
  }
  std::vector<std::string> texts;
  for (const Read& read : needs.reads) {
    texts.push_back(read_text(read, heads));
    // A token-wise weighting is called inside the loss; one that is called before the heads has no loss to read.
    if (needs.when == When::before && texts.back() == "policy.loss") {
      refuse("it reads policy.loss, which is not there at When::before; say When::token, head or all");
    }
  }
  return texts;
}

template <class Base>
void describe_instance(const PluginEntry& entry, PluginDescription& description) {
  const std::string name = entry.name;
  const std::unique_ptr<Base> plugin(guarded(name, "constructor", [&] { return static_cast<Base*>(entry.create()); }));
  OptionsRecorder recorder;
  guarded(name, "options", [&] { plugin->options(recorder); });
  description.options = recorder.specs();
  if constexpr (!std::is_same_v<Base, Adapter>) {
    description.reads = read_texts(guarded(name, "needs", [&] { return plugin->needs(); }));
  }
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
  else if (what == "pipeline objective")
    describe_instance<Objective>(entry, description);
  else if (what == "adapter adapter")
    describe_instance<Adapter>(entry, description);
  else
    refuse("its entry says '" + what + "', which this host does not know");
  return description;
}

}  // namespace

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
