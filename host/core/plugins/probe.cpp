#include "core/plugins/probe.hpp"

#include <fmt/format.h>

#include <cstring>

#include "base/error.hpp"
#include "base/sha256.hpp"
#include "core/plugins/build_fingerprint.hpp"
#include "core/plugins/description_json.hpp"
#include "core/plugins/installation.hpp"
#include "core/plugins/library_file.hpp"
#include "core/plugins/probe_cache.hpp"
#include "process/captured_child.hpp"

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

/// The program's version, and the state of its library: a build of the day must not read what yesterday's wrote.
std::string program_version() {
  const std::filesystem::path library = library_folder() / "libwmtp_core.so";
  std::error_code absent;
  const auto modified = std::filesystem::last_write_time(library, absent).time_since_epoch().count();
  return fmt::format("{}@{}", WMTP_VERSION, absent ? 0 : modified);
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of("\r\n \t");
  if (end == std::string::npos) return "";
  const size_t start = text.find_last_of('\n', end) + 1;  // npos + 1: no line break before it
  return text.substr(start, end + 1 - start);
}

[[noreturn]] void refuse(const std::string& file, const std::string& reason, const ChildResult& child) {
  const std::string said = last_line(child.messages);
  throw Error(ExitStatus::plugin, file + ": " + reason + (said.empty() ? "" : "; its last message: " + said));
}

/// How a child that was lost is told of.
struct Errand {
  const char *took_too_long, *when;
};
constexpr Errand describing{
    "loading and describing it took longer than {:g} s and was stopped; look at its static "
    "objects and its constructor",
    "when it was loaded and described"};
constexpr Errand trying{"the trial took longer than {:g} s and was stopped", "in the trial"};

/// Steps 3 to 5: what the child says when it is asked about `file`, as JSON.
nlohmann::json ask_child(const std::string& file, const std::vector<std::string>& question,
                         const Errand& errand = describing) {
  const ProbeProgram& probe = probe_program();
  const ChildResult child = run_child(probe.program, question, probe.limit);
  if (child.timed_out) {
    refuse(file, fmt::format(fmt::runtime(errand.took_too_long), std::chrono::duration<double>(probe.limit).count()),
           child);
  }
  if (child.signal != 0) {
    refuse(file,
           "its code ended the probe by signal " + std::to_string(child.signal) + " (" + strsignal(child.signal) +
               ") " + errand.when,
           child);
  }
  const auto json = nlohmann::json::parse(child.output, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    refuse(file,
           "its code ended the probe with exit code " + std::to_string(child.exit_code) + " before it was described",
           child);
  }
  if (json.is_object() && json.contains("refused")) {
    throw Error(static_cast<ExitStatus>(json.value("status", static_cast<int>(ExitStatus::plugin))),
                json.value("refused", ""));
  }
  if (child.exit_code != 0) {
    refuse(file, "its code ended the probe with exit code " + std::to_string(child.exit_code), child);
  }
  return json;
}

}  // namespace

void set_probe_program(const std::filesystem::path& program, std::chrono::milliseconds limit) {
  probe_program() = {program, limit};
}

PluginDescription probe_plugin(const std::filesystem::path& file) {
  const FileStamp stamp = check_library_file(file);
  const ProbeCache cache(ProbeCache::usual_file(), program_version());
  if (auto known = cache.find(stamp)) return *known;

  entry_symbols(stamp.path, exported_symbols(stamp.path));
  const std::string sha256 = sha256_of_file(stamp.path);
  PluginDescription description;
  try {
    description = description_from_json(ask_child(stamp.path.string(), {"describe", stamp.path.string()}));
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitStatus::plugin, stamp.path.string() + ": the probe gave no description: " + error.what());
  }
  description.path = stamp.path;
  description.sha256 = sha256;
  cache.keep(stamp, description);
  return description;
}

PluginAnswer check_plugin(const PluginSetting& plugin, const PluginSetting* inner) {
  nlohmann::json settings{{"plugin", to_json(plugin)}};
  if (inner) settings["inner"] = to_json(*inner);
  const std::string question = settings.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const bool is_file = !plugin.description.path.empty();  // a built-in one is asked anew each time
  const FileStamp stamp = is_file ? check_library_file(plugin.description.path) : FileStamp{};
  const ProbeCache cache(is_file ? ProbeCache::usual_file() : "", program_version());
  if (auto known = cache.find_needs(stamp, question)) return {*known, std::nullopt};

  const std::string where = is_file ? stamp.path.string() : plugin.description.name;
  PluginAnswer answer;
  try {
    answer = answer_from_json(ask_child(where, {"check", question}));
  } catch (const nlohmann::json::exception& error) {
    throw Error(ExitStatus::plugin, where + ": the probe gave no answer: " + error.what());
  }
  if (!answer.mistake) cache.keep_needs(stamp, question, answer.needs);
  return answer;
}

std::string ask_layouts(const PluginSetting& adapter, const std::string& questions) {
  const bool is_file = !adapter.description.path.empty();
  const FileStamp stamp = is_file ? check_library_file(adapter.description.path) : FileStamp{};
  const ProbeCache cache(is_file ? ProbeCache::usual_file() : "", program_version());
  if (const auto known = cache.find_answer(stamp, questions); known && known->is_array()) return known->dump();
  const std::string where = is_file ? stamp.path.string() : adapter.description.name;
  const nlohmann::json answer = ask_child(where, {"layouts", questions});
  cache.keep_answer(stamp, questions, answer);
  return answer.dump();
}

std::string try_in_child(const std::string& trial, const PluginSetting& plugin) {
  const nlohmann::json question{{"trial", trial}, {"plugin", to_json(plugin)}};
  const auto answer =
      ask_child(plugin.description.name,
                {"try", question.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)}, trying);
  return answer.at("told");
}

std::vector<PluginDescription> probe_built_in() {
  std::vector<PluginDescription> all;
#ifdef WMTP_STATIC_PLUGINS
  for (const nlohmann::json& one : ask_child(probe_built_in_file, {"describe", probe_built_in_file}))
    all.push_back(description_from_json(one));
#endif
  return all;
}

}  // namespace wmtp
