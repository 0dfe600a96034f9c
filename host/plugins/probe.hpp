// Probe: reads a plugin's description in a child process, so that a faulty library cannot harm the host.
//
// parent  1. Checks that the path is a regular file (no symlink, not writable by everyone). Done if it is cached.
//         2. Checks for a complete ELF file for this machine that exports an entry symbol (read, not loaded).
//         3. Runs `wmtp-engine describe FILE` with a time limit of 20 s and reads one JSON object from its stdout.
// child   4. The engine refuses an entry with another fingerprint before any plugin code runs.
//         5. Opens the library, creates one instance, queries its options and needs, prints JSON.
//
// Similarly, `wmtp-engine check SETTINGS` creates the plugin with an experiment's options (a wrapper with its inner
// plugin). If the child dies or exceeds the limit, the plugin is refused; the message names the signal or the limit.
// `try QUESTION` runs the trials of `plugins check`, each in a fork of the child that has the same limit.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "experiment/plugin_description.hpp"

namespace wmtp {

/// Cached. Error(plugin) with the reason if the library is refused.
PluginDescription probe_plugin(const std::filesystem::path& file);

/// The needs of a plugin with these options (cached), or the option that it refuses (not cached). Error(plugin) if the
/// plugin fails in any other way.
PluginCheckResult check_plugin(const PluginSetting& plugin, const PluginSetting* inner);

/// The engine's answers to all `count` trials of a plugin (plugins/trials.hpp); not cached.
Json request_trials(const PluginSetting& plugin, const std::string& device, size_t count);

/// [in the engine, while it has one thread] The answer of `trial`, which answers a probe in a fork of this process.
/// Error(plugin) with the failure.
Json run_trial_in_fork(const std::string& plugin, std::chrono::milliseconds limit, const std::function<int()>& trial);

/// Plugins linked into the engine (static build); empty in other builds. Not cached.
std::vector<PluginDescription> probe_built_in();

/// As FILE, makes `describe` return an array of the descriptions of the built-in plugins.
inline constexpr char probe_built_in_file[] = "built-in";

/// [tests only] Replaces the child's program and time limit.
void set_probe_program(const std::filesystem::path& program, std::chrono::milliseconds limit);

}  // namespace wmtp
