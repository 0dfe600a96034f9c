// Catalog: plugins by name on the search path, described without running their code in this process.
//
// Search order, first hit wins: `--plugin-dir` folders, WMTP_PLUGIN_PATH (':' between folders), the folder of this
// build or installation (../lib/wmtp/plugins from the binary). Each holds pipelines/NAME.so and adapters/NAME.so.
// An absent folder of WMTP_PLUGIN_PATH holds nothing; an absent --plugin-dir is Error(usage). In a static build the
// plugins inside the engine come last. The first hit is described or refused; the search never goes on behind it.
// A description is read by a child process (probe.hpp) and cached by path, size and modification time.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "core/config/load.hpp"

namespace wmtp {

class Catalog {
 public:
  /// [before start] `extra` are the --plugin-dir folders.
  explicit Catalog(std::vector<std::filesystem::path> extra);

  /// Error(usage) when the name is not [a-z][a-z0-9_]{0,31}; Error(plugin) when absent (nearest name, places searched)
  /// or when the library is refused (both values where something differs).
  PluginDescription describe(const std::string& kind, const std::string& name) const;

  struct Listed {
    PluginDescription description;
    std::string problem;    ///< why it is refused; empty when it is fine
    bool shadowed = false;  ///< an earlier folder has the same name
  };
  /// Everything on the search path; a bad file is listed with its problem, never a crash.
  std::vector<Listed> list() const;
  /// The names of one kind on the search path, and runs no code of any.
  std::vector<std::string> names(const std::string& kind) const;

  const std::vector<std::filesystem::path>& folders() const { return folders_; }

 private:
  std::vector<std::filesystem::path> folders_;
};

/// An experiment's file and overrides as a request to load it with the plugins of this catalog, which must outlive it.
LoadRequest load_request(const Catalog& catalog, std::filesystem::path file, std::vector<std::string> overrides,
                         std::vector<std::string> held_out = {});

/// Whether a plugin's name may be looked up at all.
bool is_plugin_name(const std::string& name);

}  // namespace wmtp
