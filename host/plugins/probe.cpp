#include "plugins/probe.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/error.hpp"
#include "base/installation.hpp"
#include "base/json_text.hpp"
#include "base/sha256.hpp"
#include "base/system_limits.hpp"
#include "base/text.hpp"
#include "plugins/description_json.hpp"
#include "plugins/library_file.hpp"
#include "plugins/libtorch.hpp"
#include "plugins/probe_cache.hpp"
#include "process/child_process.hpp"

namespace wmtp {
namespace {

struct ProbeProgram {
  std::filesystem::path program;
  std::chrono::milliseconds limit{20'000};
};

ProbeProgram& probe_program() {
  static ProbeProgram value{engine_program(), std::chrono::seconds(20)};
  return value;
}

/// The program's version and its library's modification time, so that a new build does not use cache entries of an
/// older one.
std::string program_version() {
  const std::filesystem::path library = library_folder() / "libwmtp_core.so";
  std::error_code absent;
  const auto modified = std::filesystem::last_write_time(library, absent).time_since_epoch().count();
  return fmt::format("{}@{}", WMTP_VERSION, absent ? 0 : modified);
}

[[noreturn]] void refuse(const std::string& file, const std::string& reason, const ChildResult& child) {
  const std::string message = last_line(child.messages);
  throw with_limit_named(
      Error(ExitStatus::plugin, file + ": " + reason + (message.empty() ? "" : "; its last message: " + message)));
}

/// Messages for a child that died or exceeded the limit.
struct ChildTask {
  const char *took_too_long, *when;
};
constexpr ChildTask describing{
    "loading and describing it took longer than {:g} s and was stopped; check its static objects and its constructor",
    "while it was loaded and described"};
constexpr ChildTask running_trial{"the trial took longer than {:g} s and was stopped", "in the trial"};

ChildResult run_probe(const std::vector<std::string>& probe_request, std::chrono::milliseconds limit) {
  ChildRequest request;
  request.program = probe_program().program;
  request.arguments = probe_request;
  request.environment = environment_entries(engine_environment());
  try {
    return run_child(request, limit);
  } catch (const Error& error) {
    throw_if_limit_caused(error);
    throw Error(ExitStatus::plugin, error.what() + std::string("; build or install the program again"));
  }
}

/// The JSON answer about `file` of a child that had this time limit.
Json parse_reply(const ChildResult& child, const std::string& file, std::chrono::milliseconds limit,
                 const ChildTask& task) {
  if (child.timed_out)
    refuse(file, fmt::format(fmt::runtime(task.took_too_long), std::chrono::duration<double>(limit).count()), child);
  if (child.signal != 0) {
    refuse(file,
           "its code terminated the probe with signal " + std::to_string(child.signal) + " (" +
               strsignal(child.signal) + ") " + task.when,
           child);
  }
  const auto json = Json::parse(child.output, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    refuse(
        file,
        "its code terminated the probe with exit code " + std::to_string(child.exit_code) + " before it was described",
        child);
  }
  if (json.is_object() && json.contains("refused")) {
    throw Error(ExitStatus(json.value("status", int(ExitStatus::plugin))), json.value("refused", ""));
  }
  if (child.exit_code != 0)
    refuse(file, "its code terminated the probe with exit code " + std::to_string(child.exit_code), child);
  return json;
}

/// Steps 3 to 5.
Json request_from_child(const std::string& file, const std::vector<std::string>& probe_request) {
  const std::chrono::milliseconds limit = probe_program().limit;
  return parse_reply(run_probe(probe_request, limit), file, limit, describing);
}

}  // namespace

void set_probe_program(const std::filesystem::path& program, std::chrono::milliseconds limit) {
  probe_program() = {program, limit};
}

PluginDescription probe_plugin(const std::filesystem::path& file) {
  const FileStamp stamp = check_library_file(file);
  const ProbeCache cache(ProbeCache::usual_folder(), program_version());
  if (auto known = cache.find(stamp)) return *known;

  entry_symbols(stamp.path);
  const std::string sha256 = file_sha256_hex(stamp.path);
  PluginDescription description;
  try {
    description = request_from_child(stamp.path.string(), {"describe", stamp.path.string()}).get<PluginDescription>();
  } catch (const Json::exception& error) {
    throw Error(ExitStatus::plugin, stamp.path.string() + ": the probe returned no description: " + error.what());
  }
  description.path = stamp.path;
  description.sha256 = sha256;
  cache.keep(stamp, description);
  return description;
}

PluginCheckResult check_plugin(const PluginSetting& plugin, const PluginSetting* inner) {
  Json settings{{"plugin", plugin}};
  if (inner) settings["inner"] = *inner;
  const std::string probe_request = dumped(settings);
  const bool is_file = !plugin.description.path.empty();
  const FileStamp stamp = is_file ? check_library_file(plugin.description.path) : FileStamp{};
  const ProbeCache cache(is_file ? ProbeCache::usual_folder() : "", program_version());
  if (auto known = cache.find_reply<PluginCheckResult>(stamp, probe_request)) return *known;
  const std::string where = is_file ? stamp.path.string() : plugin.description.name;
  try {
    const auto result = request_from_child(where, {"check", probe_request}).get<PluginCheckResult>();
    if (!result.mistake) cache.keep_reply(stamp, probe_request, result);
    return result;
  } catch (const Json::exception& error) {
    throw Error(ExitStatus::plugin, where + ": the probe returned no answer: " + error.what());
  }
}

Json request_trials(const PluginSetting& plugin, const std::string& device, size_t count) {
  const std::chrono::milliseconds limit = probe_program().limit, total_limit = limit * (int64_t(count) + 1);
  const Json probe_request{{"plugin", plugin}, {"device", device}, {"limit_ms", limit.count()}};
  const ChildResult child = run_probe({"try", dumped(probe_request)}, total_limit);
  return parse_reply(child, plugin.description.name, total_limit, running_trial);
}

Json run_trial_in_fork(const std::string& plugin, std::chrono::milliseconds limit, const std::function<int()>& trial) {
  ChildRequest request;
  request.code = trial;
  return parse_reply(run_child(request, limit), plugin, limit, running_trial);
}

std::vector<PluginDescription> probe_built_in() {
  std::vector<PluginDescription> all;
#ifdef WMTP_STATIC_PLUGINS
  for (const Json& one : request_from_child(probe_built_in_file, {"describe", probe_built_in_file})) all.push_back(one);
#endif
  return all;
}

}  // namespace wmtp
