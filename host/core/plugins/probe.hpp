// Probe: reads a plugin's description in a child process, so that a faulty library cannot harm the host.
//
// parent  1. Checks that the path is a regular file (no symlink, not writable by everyone). Done if it is cached.
//         2. Checks for a complete ELF file for this machine that exports an entry symbol (read, not loaded).
//         3. Runs `wmtp-engine describe FILE` with a time limit of 20 s and reads one JSON object from its stdout.
// child   4. The engine refuses an entry with another fingerprint before any plugin code runs.
//         5. Opens the library, creates one instance, queries its options and needs, prints JSON.
//
// Similarly, `wmtp-engine check SETTINGS` creates the plugin with an experiment's options (a wrapper with its inner
// plugin), `layouts QUESTIONS` queries the parameters that an adapter adds to a model, and `try QUESTION` runs a trial.
// If the child dies or exceeds the limit, the plugin is refused; the message names the signal or the limit.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/experiment/plugin_description.hpp"

namespace wmtp {

/// Cached. Error(plugin) with the reason if the library is refused.
PluginDescription probe_plugin(const std::filesystem::path& file);

/// The needs of a plugin with these options (cached), or the option that it refuses (not cached). Error(plugin) if the
/// plugin fails in any other way.
PluginAnswer check_plugin(const PluginSetting& plugin, const PluginSetting* inner);

/// The engine's JSON answer to `questions` about the parameters of models with `adapter`; cached. Error(plugin) if the
/// adapter fails.
std::string ask_layouts(const PluginSetting& adapter, const std::string& questions);

/// The output of one trial of a plugin (engine/plugin_check/try_plugin.hpp); not cached. Error(plugin) with the
/// failure.
std::string try_in_child(const std::string& trial, const PluginSetting& plugin, const std::string& device);

/// Plugins linked into the engine (static build); empty in other builds. Not cached.
std::vector<PluginDescription> probe_built_in();

/// As FILE, makes `describe` return an array of the descriptions of the built-in plugins.
inline constexpr char probe_built_in_file[] = "built-in";

/// [tests only] Replaces the child's program and time limit.
void set_probe_program(const std::filesystem::path& program, std::chrono::milliseconds limit);

}  // namespace wmtp
