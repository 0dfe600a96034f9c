// A shipped plugin made by its entry, with its options set as a run sets them, and what it says of options that it
// cannot take.
#pragma once

#include <memory>
#include <string>
#include <wmtp/plugin.hpp>

#include "core/plugins/installation.hpp"
#include "engine/plugin_runtime/loader.hpp"
#include "engine/plugin_runtime/options_binder.hpp"

namespace wmtp::test {

/// `Base`: Weighting or Objective, what the plugin's entry says that it is.
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

/// What it throws from needs(); an option "" when it takes all of them.
template <class Plugin>
BadOption refused(const Plugin& plugin) {
  try {
    plugin.needs();
  } catch (const BadOption& bad) {
    return bad;
  }
  return BadOption("", "");
}

/// The option that the plugin refuses, from options() or needs(); "" when it takes all of them.
template <class Base>
std::string refused_option(const std::string& pipeline, const OptionValues& options) {
  try {
    return refused(*made<Base>(pipeline, options)).option();
  } catch (const OptionError& bad) {
    return bad.option();
  }
}

}  // namespace wmtp::test
