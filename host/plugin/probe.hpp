// Probe: reads a plugin's description in a child process, so that a bad library cannot hurt the host.
//
// parent  1. the path is a regular file (no symlink, not writable by others), starts like an ELF file for this machine
//         2. runs `wmtp-host __probe FILE` with a time limit; reads one JSON object from its stdout
// child   3. lists exported symbols without loading (Boost.DLL library_info): no entry, or an entry with another
//            fingerprint, is refused before any plugin code runs, with both fingerprints
//         4. loads the engine and the library, creates one instance, asks for its options and needs, prints JSON
// A child that dies or exceeds the limit is a refused plugin: the reason names the signal or the limit.
#pragma once

#include <filesystem>
#include <string>

#include "experiment/plugin_description.hpp"

namespace wmtp {

/// Cached. Throws Error(plugin) with the reason when the library is refused.
PluginDescription probe_plugin(const std::filesystem::path& file);

/// The child's side: prints the JSON; returns the exit code. Never throws.
int probe_child_main(const std::string& file);

}  // namespace wmtp
