// Probe: reads a plugin's description in a child process, so that a bad library cannot hurt the host.
//
// parent  1. the path is a regular file (no symlink, not writable by others); known by path, size and time: done
//         2. it is an ELF file for this machine, whole, and exports an entry symbol (read, not loaded)
//         3. runs `wmtp-engine describe FILE` with a time limit of 20 s; reads one JSON object from its stdout
// child   4. the engine refuses an entry of another fingerprint, with both, before any plugin code runs
//         5. opens the library, creates one instance, asks for its options and needs, prints JSON
// An experiment's own options are asked about in the same way: `wmtp-engine check SETTINGS` makes the plugin with them,
// a wrapper over its inner one; so is what an adapter puts beside a model: `wmtp-engine layouts QUESTIONS`; and so it
// is tried out: `wmtp-engine try QUESTION`. A child
// that dies or exceeds the limit is a refused plugin: the reason names the signal or the limit.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/experiment/plugin_description.hpp"

namespace wmtp {

/// Cached. Throws Error(plugin) with the reason when the library is refused.
PluginDescription probe_plugin(const std::filesystem::path& file);

/// What a plugin needs with these options, or which one it refuses; cached unless it refuses. Throws Error(plugin) when
/// the plugin fails in any other way.
PluginAnswer check_plugin(const PluginSetting& plugin, const PluginSetting* inner);

/// The engine's answer (JSON) to `questions` about the parameters of models, in which `adapter` stands; cached. Throws
/// Error(plugin) when the adapter fails.
std::string ask_layouts(const PluginSetting& adapter, const std::string& questions);

/// What the engine tells after one trial (engine/plugin_check/try_plugin.hpp) of a plugin; not cached. Throws Error(plugin) with what
/// is wrong.
std::string try_in_child(const std::string& trial, const PluginSetting& plugin);

/// The plugins that are linked into the engine (the static build); empty in every other build. Not cached.
std::vector<PluginDescription> probe_built_in();

/// The FILE of `describe` that asks for the built-in plugins: an array of descriptions.
inline constexpr char probe_built_in_file[] = "built-in";

/// [tests only] another program than our own, or another limit.
void set_probe_program(const std::filesystem::path& program, std::chrono::milliseconds limit);

}  // namespace wmtp
