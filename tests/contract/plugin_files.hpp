// The plugins of this build, described by this process, which only good plugins are loaded into.
#pragma once

#include <algorithm>

#include "base/installation.hpp"
#include "base/json.hpp"
#include "base/sha256.hpp"
#include "plugins/description_json.hpp"
#include "plugins/torch/describe.hpp"
#include "plugins/torch/loader.hpp"
#include "plugins/torch/options_binder.hpp"

namespace wmtp::test {

inline std::filesystem::path build_folder() { return library_folder().parent_path(); }
inline std::filesystem::path test_plugins() { return build_folder() / "tests" / "plugins"; }

inline PluginDescription described(const std::filesystem::path& file) {
  PluginDescription description = Json::parse(describe_plugin_file(file.string()));
  description.path = file;
  description.sha256 = file_sha256_hex(file);
  return description;
}

/// A test plugin or, in a build that loads them, a shipped one.
inline PluginDescription described(const std::string& kind, const std::string& name) {
  const std::string folder = folder_name(from_name<PluginKind>(kind).value());
  const auto own = test_plugins() / folder / (name + ".so");
  if (std::filesystem::exists(own)) return described(own);
  const auto shipped = own_plugin_folder() / folder / (name + ".so");
  if (std::filesystem::exists(shipped)) return described(shipped);
  for (const auto& json : Json::parse(describe_plugin_file("built-in")))
    if (json.at("kind") == kind && json.at("name") == name) return json.get<PluginDescription>();
  throw std::runtime_error("this build has no " + kind + " '" + name + "'");
}

inline bool is_of_kind(const PluginEntry& entry, const std::string& kind) {
  return to_string(kind_of(role_of(entry))) == kind;
}

/// Names of the shipped plugins of a kind, in files or linked into this build, in alphabetical order.
inline std::vector<std::string> shipped(const std::string& kind) {
  std::vector<std::string> names;
  for (const PluginEntry* entry : detail::BuiltIn::all())
    if (is_of_kind(*entry, kind)) names.push_back(entry->name);
  const auto folder = own_plugin_folder() / folder_name(from_name<PluginKind>(kind).value());
  if (std::filesystem::exists(folder)) {
    for (const auto& file : std::filesystem::directory_iterator(folder)) names.push_back(file.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// A shipped plugin's entry, without the host's checks.
inline const PluginEntry& entry_of(const std::string& kind, const std::string& name) {
  for (const PluginEntry* entry : detail::BuiltIn::all())
    if (is_of_kind(*entry, kind) && name == entry->name) return *entry;
  return open_plugin(own_plugin_folder() / folder_name(from_name<PluginKind>(kind).value()) / (name + ".so"));
}

/// A shipped weighting with these options; a wrapper wraps `inner`.
inline std::unique_ptr<Weighting> weighting(const std::string& name, const OptionValues& options = {},
                                            Weighting* inner = nullptr) {
  const PluginEntry& entry = entry_of("pipeline", name);
  std::unique_ptr<Weighting> made;
  if (entry.wrapper) {
    std::unique_ptr<Wrapper> wrapper = create_instance<Wrapper>(entry);
    wrapper->wrap(*inner);
    made = std::move(wrapper);
  } else {
    made = create_instance<Weighting>(entry);
  }
  bind_options(name, *made, options);
  return made;
}

}  // namespace wmtp::test
