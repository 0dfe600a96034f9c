// The plugins of this build, described by this process: the contract tests run good plugins only in it.
#pragma once

#include <nlohmann/json.hpp>

#include "base/sha256.hpp"
#include "plugin/describe.hpp"
#include "plugin/description_json.hpp"
#include "plugin/installation.hpp"

namespace wmtp::test {

inline std::filesystem::path build_folder() { return library_folder().parent_path(); }
inline std::filesystem::path test_plugins() { return build_folder() / "tests" / "plugins"; }

inline PluginDescription described(const std::filesystem::path& file) {
  PluginDescription description = description_from_json(nlohmann::json::parse(describe_plugin_file(file.string())));
  description.path = file;
  description.sha256 = sha256_of_file(file);
  return description;
}

/// A test plugin or, in a build that loads them, a shipped one.
inline PluginDescription described(const std::string& kind, const std::string& name) {
  const auto own = test_plugins() / (kind + "s") / (name + ".so");
  if (std::filesystem::exists(own)) return described(own);
  const auto shipped = own_plugin_folder() / (kind + "s") / (name + ".so");
  if (std::filesystem::exists(shipped)) return described(shipped);
  for (const auto& json : nlohmann::json::parse(describe_plugin_file("built-in"))) {
    if (json.at("kind") == kind && json.at("name") == name) return description_from_json(json);
  }
  throw std::runtime_error("this build has no " + kind + " '" + name + "'");
}

}  // namespace wmtp::test
