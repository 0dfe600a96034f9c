#include "plugins/probe_cache.hpp"

#include <unistd.h>

#include <fstream>
#include <functional>
#include <mutex>

#include "base/environment.hpp"
#include "base/files.hpp"
#include "io/durable_file.hpp"
#include "io/scratch_folder.hpp"
#include "plugins/description_json.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr uintmax_t size_limit = 4 << 20;
constexpr size_t max_replies = 64;
constexpr const char* description_name = "description";

Json parsed(const fs::path& file) {
  if (fs::file_size(file) > size_limit) throw std::length_error("too large");
  std::ifstream stream(file);
  return Json::parse(stream);
}

/// Calls `change`. Failures cause no message, because nothing is lost: the next run probes again.
void attempt(const std::function<void()>& change) {
  static std::mutex one_writer;  // threads of one process share the name of a draft
  const std::lock_guard lock(one_writer);
  try {
    change();
  } catch (const std::exception&) {
  }
}

}  // namespace

ProbeCache::ProbeCache(fs::path folder, std::string version)
    : folder_(std::move(folder)), version_(std::move(version)) {}

fs::path ProbeCache::usual_folder() {
  const auto folder = [](const char* variable) -> fs::path {
    const std::string value = environment_value(variable);
    return value.starts_with('/') ? value : "";
  };
  const auto can_be_written = [](const fs::path& path) {
    std::error_code ignored;
    fs::create_directories(path, ignored);
    return access(path.c_str(), W_OK | X_OK) == 0;
  };
  if (const auto cache = folder("XDG_CACHE_HOME"); !cache.empty() && can_be_written(cache / "wmtp" / "plugins"))
    return cache / "wmtp" / "plugins";
  if (const auto home = folder("HOME"); !home.empty() && can_be_written(home / ".cache" / "wmtp" / "plugins"))
    return home / ".cache" / "wmtp" / "plugins";
  return persistent_temp_folder("plugins");
}

fs::path ProbeCache::stamp_folder(const FileStamp& stamp) const {
  return folder_ / short_sha256_hex(stamp.path.string());
}

Json ProbeCache::stamp_key(const FileStamp& stamp) const {
  return {
      {"path", stamp.path.string()}, {"size", stamp.size}, {"modified_ns", stamp.modified_ns}, {"version", version_}};
}

Json ProbeCache::read(const FileStamp& stamp, const std::string& name) const {
  Json entry = parsed(stamp_folder(stamp) / (name + ".json"));
  if (entry.at("key") != stamp_key(stamp)) throw std::out_of_range("the entry of another version of the file");
  return entry.at("value");
}

void ProbeCache::write(const FileStamp& stamp, const std::string& name, const Json& value) const {
  fs::create_directories(stamp_folder(stamp));
  write_file_durably(stamp_folder(stamp) / (name + ".json"),
                     Json{{"key", stamp_key(stamp)}, {"value", value}}.dump() + "\n");
}

void ProbeCache::remove_stale(const FileStamp& stamp) const {
  std::error_code ignored;
  fs::remove_all(stamp_folder(stamp), ignored);
  for (const fs::path& plugin : paths_in(folder_)) try {
      const Json entry = parsed(plugin / (description_name + std::string(".json")));
      if (!fs::exists(entry.at("key").at("path").get<std::string>())) fs::remove_all(plugin, ignored);
    } catch (const std::exception&) {
      fs::remove_all(plugin, ignored);
    }
}

std::optional<PluginDescription> ProbeCache::find(const FileStamp& stamp) const try {
  return read(stamp, description_name).get<PluginDescription>();
} catch (const std::exception&) {
  return std::nullopt;
}

void ProbeCache::keep(const FileStamp& stamp, const PluginDescription& description) const {
  if (folder_.empty()) return;
  attempt([&] {
    remove_stale(stamp);
    write(stamp, description_name, description);
  });
}

void ProbeCache::keep_reply(const FileStamp& stamp, const std::string& request, const Json& reply) const {
  if (folder_.empty()) return;
  attempt([&] {
    read(stamp, description_name);  // throws for a file, or a version of it, that was not described
    const std::vector<fs::path> known = paths_in(stamp_folder(stamp));
    if (known.size() > max_replies)
      for (const fs::path& file : known)
        if (file.stem() != description_name) fs::remove(file);
    write(stamp, sha256_hex(request), reply);
  });
}

}  // namespace wmtp
