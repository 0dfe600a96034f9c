// Descriptions of plugins that were probed before, by path, size, modification time and version of this program, and
// what they need with the options that were asked about.
// One JSON file, replaced whole by a rename; a damaged, foreign or unwritable one only means that plugins are probed
// again. Two writers at once may lose an entry, never damage the file. A refusal is never kept.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/experiment/plugin_description.hpp"
#include "core/plugins/library_file.hpp"

namespace wmtp {

class ProbeCache {
 public:
  /// `version` is the program's; an empty `file` keeps nothing.
  ProbeCache(std::filesystem::path file, std::string version);
  /// $XDG_CACHE_HOME/wmtp/plugins.json or ~/.cache/wmtp/plugins.json; empty when neither is known.
  static std::filesystem::path usual_file();

  std::optional<PluginDescription> find(const FileStamp& stamp) const;
  void keep(const FileStamp& stamp, const PluginDescription& description) const;

  /// `question` says who is asked with which options, the sha256 of each file included. Needs are kept beside a file's
  /// description, and go with it; of each file a few dozen.
  std::optional<PluginNeeds> find_needs(const FileStamp& stamp, const std::string& question) const;
  void keep_needs(const FileStamp& stamp, const std::string& question, const PluginNeeds& needs) const;
  /// The same for any other answer.
  std::optional<nlohmann::json> find_answer(const FileStamp& stamp, const std::string& question) const;
  void keep_answer(const FileStamp& stamp, const std::string& question, const nlohmann::json& answer) const;

 private:
  nlohmann::json read() const;
  nlohmann::json key_of(const FileStamp& stamp) const;
  void replace(const std::function<void(nlohmann::json& entries)>& change) const;

  std::filesystem::path file_;
  std::string version_;
};

}  // namespace wmtp
