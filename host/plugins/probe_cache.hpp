// Cache of probed plugins: descriptions by path, size, modification time and program version, and answers to questions
// about them. A folder for each plugin, with a small JSON file for the description and for each reply, because a run
// reads some of them several times. Files are replaced by a rename; those that are damaged or cannot be written are
// probed again. Refusals are not cached.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "base/json.hpp"
#include "base/sha256.hpp"
#include "experiment/plugin_description.hpp"
#include "plugins/library_file.hpp"

namespace wmtp {

class ProbeCache {
 public:
  /// `version`: the program's. An empty `folder` disables the cache.
  ProbeCache(std::filesystem::path folder, std::string version);
  /// The first that can be written of $XDG_CACHE_HOME/wmtp/plugins, ~/.cache/wmtp/plugins and a private folder in
  /// TMPDIR or /tmp (io/scratch_folder.hpp); empty if none can.
  static std::filesystem::path usual_folder();

  std::optional<PluginDescription> find(const FileStamp& stamp) const;
  /// Also removes what is known about other versions of the file, and about files that are gone.
  void keep(const FileStamp& stamp, const PluginDescription& description) const;

  /// `request` contains the plugins, their options and the sha256 of their files. At most 64 answers are kept for each
  /// plugin, and none for one that was not described.
  template <class Reply>
  std::optional<Reply> find_reply(const FileStamp& stamp, const std::string& request) const try {
    return read(stamp, sha256_hex(request)).get<Reply>();
  } catch (const std::exception&) {
    return std::nullopt;
  }
  void keep_reply(const FileStamp& stamp, const std::string& request, const Json& reply) const;

 private:
  std::filesystem::path stamp_folder(const FileStamp& stamp) const;
  Json stamp_key(const FileStamp& stamp) const;
  Json read(const FileStamp& stamp, const std::string& name) const;  ///< throws if there is none
  void write(const FileStamp& stamp, const std::string& name, const Json& value) const;
  void remove_stale(const FileStamp& stamp) const;

  std::filesystem::path folder_;
  std::string version_;
};

}  // namespace wmtp
