#include "core/plugins/probe_cache.hpp"

#include <cstdlib>
#include <fstream>
#include <mutex>

#include "core/plugins/description_json.hpp"
#include "io/durable_file.hpp"

namespace wmtp {
namespace {
constexpr uintmax_t size_limit = 4 << 20;
constexpr size_t max_answers = 64;
}  // namespace

ProbeCache::ProbeCache(std::filesystem::path file, std::string version)
    : file_(std::move(file)), version_(std::move(version)) {}

std::filesystem::path ProbeCache::usual_file() {
  const auto folder = [](const char* variable) -> std::filesystem::path {
    const char* value = std::getenv(variable);
    return value != nullptr && value[0] == '/' ? value : "";
  };
  if (const auto cache = folder("XDG_CACHE_HOME"); !cache.empty()) return cache / "wmtp" / "plugins.json";
  if (const auto home = folder("HOME"); !home.empty()) return home / ".cache" / "wmtp" / "plugins.json";
  return {};
}

nlohmann::json ProbeCache::read() const {
  std::error_code missing;
  const uintmax_t size = std::filesystem::file_size(file_, missing);
  if (missing || size > size_limit) return nlohmann::json::object();
  std::ifstream stream(file_);
  auto json = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
  return json.is_object() ? json : nlohmann::json::object();
}

nlohmann::json ProbeCache::key_of(const FileStamp& stamp) const {
  return {{"size", stamp.size}, {"modified_ns", stamp.modified_ns}, {"version", version_}};
}

nlohmann::json ProbeCache::entry_of(const FileStamp& stamp) const {
  nlohmann::json entry = read().at(stamp.path.string());
  if (entry.at("key") != key_of(stamp)) throw std::out_of_range("the entry of another version of the file");
  return entry;
}

std::optional<PluginDescription> ProbeCache::find(const FileStamp& stamp) const try {
  return entry_of(stamp).at("description").get<PluginDescription>();
} catch (const std::exception&) {
  return std::nullopt;
}

void ProbeCache::replace(const std::function<void(nlohmann::json& entries)>& change) const {
  if (file_.empty()) return;
  static std::mutex one_writer;  // threads of one process share the name of the draft
  const std::lock_guard lock(one_writer);
  try {
    std::filesystem::create_directories(file_.parent_path());
    nlohmann::json entries = read();
    for (auto entry = entries.begin(); entry != entries.end();) {
      entry = std::filesystem::exists(entry.key()) ? std::next(entry) : entries.erase(entry);
    }
    change(entries);
    write_file_durably(file_, entries.dump(1) + "\n");
  } catch (const std::exception&) {
    // No message, because nothing is lost: the next run probes again.
  }
}

void ProbeCache::keep(const FileStamp& stamp, const PluginDescription& description) const {
  replace([&](nlohmann::json& entries) {
    entries[stamp.path.string()] = {{"key", key_of(stamp)}, {"description", description}};
  });
}

void ProbeCache::keep_answer(const FileStamp& stamp, const std::string& question, const nlohmann::json& answer) const {
  replace([&](nlohmann::json& entries) {
    nlohmann::json& entry = entries.at(stamp.path.string());
    if (entry.at("key") != key_of(stamp)) return;
    if (entry["answers"].size() >= max_answers) entry["answers"] = nlohmann::json::object();
    entry["answers"][sha256_of(question)] = answer;
  });
}

}  // namespace wmtp
