// A shipped plugin created by its entry, with options set as by a run, and the option that it refuses.
#pragma once

#include <memory>
#include <string>
#include <wmtp/plugin.hpp>

#include "base/installation.hpp"
#include "plugins/torch/loader.hpp"
#include "plugins/torch/options_binder.hpp"

namespace wmtp::test {

/// `Base`: the role of the plugin's entry, Weighting or Objective.
template <class Base>
std::unique_ptr<Base> made(const std::string& pipeline, const OptionValues& options) {
  const PluginEntry* entry = nullptr;
  for (const PluginEntry* built_in : detail::BuiltIn::all())
    if (built_in->name == pipeline) entry = built_in;
  if (entry == nullptr) entry = &open_plugin(own_plugin_folder() / "pipelines" / (pipeline + ".so"));
  std::unique_ptr<Base> plugin = create_instance<Base>(*entry);
  bind_options(pipeline, *plugin, options);
  return plugin;
}

/// The error that needs() throws; its option is "" if there is none.
template <class Plugin>
BadOption refused(const Plugin& plugin) {
  try {
    plugin.needs();
  } catch (const BadOption& bad) {
    return bad;
  }
  return BadOption("", "");
}

/// The option that the plugin refuses in options() or needs(); "" if none.
template <class Base>
std::string refused_option(const std::string& pipeline, const OptionValues& options) {
  try {
    return refused(*made<Base>(pipeline, options)).option();
  } catch (const OptionError& bad) {
    return bad.option();
  }
}

}  // namespace wmtp::test
