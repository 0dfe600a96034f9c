// Cache of probed plugins: descriptions by path, size, modification time and program version, and answers to questions
// about them. One JSON file, replaced by a rename; if it is damaged or unwritable, plugins are probed again. Concurrent
// writers may lose an entry but never damage the file. Refusals are not cached.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "base/sha256.hpp"
#include "core/experiment/plugin_description.hpp"
#include "core/plugins/library_file.hpp"

namespace wmtp {

class ProbeCache {
 public:
  /// `version`: the program's. An empty `file` disables the cache.
  ProbeCache(std::filesystem::path file, std::string version);
  /// $XDG_CACHE_HOME/wmtp/plugins.json or ~/.cache/wmtp/plugins.json; empty without these variables.
  static std::filesystem::path usual_file();

  std::optional<PluginDescription> find(const FileStamp& stamp) const;
  void keep(const FileStamp& stamp, const PluginDescription& description) const;

  /// `question` contains the plugins, their options and the sha256 of their files. Answers are stored with the file's
  /// description and removed with it, at most 64 for each file.
  template <class Answer>
  std::optional<Answer> find_answer(const FileStamp& stamp, const std::string& question) const try {
    return entry_of(stamp).at("answers").at(sha256_of(question)).get<Answer>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
  void keep_answer(const FileStamp& stamp, const std::string& question, const nlohmann::json& answer) const;

 private:
  nlohmann::json read() const;
  nlohmann::json key_of(const FileStamp& stamp) const;
  nlohmann::json entry_of(const FileStamp& stamp) const;  ///< throws if there is no entry for this version of the file
  void replace(const std::function<void(nlohmann::json& entries)>& change) const;

  std::filesystem::path file_;
  std::string version_;
};

}  // namespace wmtp
