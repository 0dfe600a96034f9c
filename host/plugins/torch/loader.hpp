// Loader: creates a plugin from its description. [engine; training thread, before start]
//
// A library is opened once, with RTLD_NOW and RTLD_LOCAL, and never closed: objects, exceptions and function pointers
// of a plugin may live as long as the process.
#pragma once

#include <filesystem>
#include <memory>
#include <tuple>
#include <wmtp/plugin.hpp>

#include "experiment/plugin_description.hpp"
#include "plugins/torch/boundary.hpp"
#include "plugins/torch/guarded_adapter.hpp"

namespace wmtp {

/// Compares the fingerprint before opening the file. Error(plugin) if it differs, the library cannot be loaded, or its
/// entry is incomplete.
const PluginEntry& open_plugin(const std::filesystem::path& file);

PluginRole role_of(const PluginEntry& entry);

/// A new instance with default options. `Base` is Weighting, Wrapper, Objective, Adapter or AuxiliaryLoss, matching the
/// entry's role.
template <class Base>
std::unique_ptr<Base> create_instance(const PluginEntry& entry) {
  const auto create = std::get<Base* (*)()>(
      std::tuple(entry.weighting, entry.wrapper, entry.objective, entry.adapter, entry.auxiliary_loss));
  return std::unique_ptr<Base>(guarded(entry.name, "constructor", create));
}

/// The described plugin: loaded from its file, whose sha256 must match, or linked into the engine.
const PluginEntry& load_plugin(const PluginDescription& description);

/// A new instance with its options set. Error(plugin) also if the plugin has another role; OptionError if it refuses a
/// value.
/// With `inner`, a weighting, the plugin is a wrapper around it; the result owns both.
std::unique_ptr<Weighting> create_weighting(const PluginSetting& plugin, const PluginSetting* inner);
std::unique_ptr<Weighting> create_weighting(const PluginDescription& description, const OptionValues& options);
/// A wrapper around an existing weighting.
std::unique_ptr<Weighting> create_wrapper(const PluginSetting& plugin, std::unique_ptr<Weighting> inner);
std::unique_ptr<Objective> create_objective(const PluginDescription& description, const OptionValues& options);
std::unique_ptr<AuxiliaryLoss> create_auxiliary_loss(const PluginDescription& description, const OptionValues& options);
/// Wrapped in its boundary.
std::unique_ptr<GuardedAdapter> create_adapter(const PluginDescription& description, const OptionValues& options);

}  // namespace wmtp
