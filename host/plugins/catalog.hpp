// Catalog: finds plugins by name on the search path and describes them without running their code in this process.
//
// Search order: `--plugin-dir` folders, WMTP_PLUGIN_PATH (folders separated by ':'), the folder of this build or
// installation (../lib/wmtp/plugins from the binary); in a static build also the plugins linked into the engine. Each
// folder contains pipelines/NAME.so and adapters/NAME.so. A missing folder of WMTP_PLUGIN_PATH counts as empty; a
// missing --plugin-dir is Error(usage). The search ends at the first match, even if it is refused. A child process
// reads the description (probe.hpp), which is cached by path, size and modification time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiment/load/load.hpp"

namespace wmtp {

class Catalog {
 public:
  /// [before start] `extra`: the --plugin-dir folders.
  explicit Catalog(const std::vector<std::filesystem::path>& extra);

  /// Error(usage) if the name is not [a-z][a-z0-9_]{0,31}; Error(plugin) if the plugin is not found (with the most
  /// similar name and the searched folders) or its library is refused.
  PluginDescription describe(PluginKind kind, const std::string& name) const;

  struct Listed {
    PluginDescription description;
    std::string problem;    ///< why it is refused; else empty
    bool shadowed = false;  ///< an earlier folder contains the same name
  };
  /// All plugins on the search path, including refused ones, with their problems.
  std::vector<Listed> list() const;
  /// The names of all plugins of a kind; runs no plugin code.
  std::vector<std::string> names(PluginKind kind) const;

  const std::vector<std::filesystem::path>& folders() const { return folders_; }

 private:
  std::vector<std::filesystem::path> folders_;
};

bool is_plugin_name(const std::string& name);

/// The description and the explicit options of a plugin in an experiment. Error(plugin).
PluginSetting plugin_setting(const Catalog& catalog, PluginKind kind, const PluginChoice& choice);

/// The needs of the experiment's pipeline with its options: from the cache, else from a child process. Error(plugin).
PluginNeeds pipeline_needs(const Experiment& experiment, const Catalog& catalog);

}  // namespace wmtp
