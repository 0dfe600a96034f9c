#include "plugins/libtorch.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <vector>

#include "base/environment.hpp"
#include "base/error.hpp"
#include "base/installation.hpp"
#include "base/text.hpp"
#include "plugins/library_file.hpp"
#include "process/python_program.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr char library[] = "libtorch_cpu.so";
constexpr char wanted_version[] = WMTP_LIBTORCH_VERSION;

bool contains_library(const fs::path& folder) {
  std::error_code unreadable;
  return fs::exists(folder / library, unreadable);
}

/// "2.11.0" of a folder of torch; "" if no file in it names its version.
std::string version_in(const fs::path& torch) {
  constexpr size_t max_line_bytes = 200;  // std::regex recurses for each character
  static const std::regex number("(\\d+\\.\\d+\\.\\d+)");
  for (const char* name : {"version.py", "build-version"}) {
    std::ifstream file(torch / name);
    std::smatch found;
    for (std::string line; std::getline(file, line);) {
      line.resize(std::min(line.size(), max_line_bytes));
      if (std::regex_search(line, found, number)) return found.str(1);
    }
  }
  return "";
}

/// Why the engine cannot use this folder of torch; "" if it can.
std::string problem_of(const fs::path& torch) {
  if (!contains_library(torch / "lib")) return "has no lib/" + std::string(library);
  const std::string version = version_in(torch);
  return version.empty() || version == wanted_version ? "" : "is version " + version;
}

/// The folder of the torch that this Python imports; "" if it has none. The current folder is not searched.
std::string torch_of(const fs::path& python) {
  constexpr char program[] =
      "import importlib.util\n"
      "torch = importlib.util.find_spec('torch')\n"
      "print(torch.submodule_search_locations[0] if torch and torch.submodule_search_locations else '')\n";
  return last_line(run_child(python_child(python, program), std::chrono::seconds(20)).output);
}

/// Whether the dynamic linker takes LibTorch from LD_LIBRARY_PATH, which precedes run paths. Error(usage) if that is
/// not the LibTorch of this build.
bool loads_from_environment(const std::vector<std::string>& run_path) {
  for (const std::string& folder : split_search_path(environment_value("LD_LIBRARY_PATH"))) {
    if (!contains_library(folder)) continue;
    const std::string version = version_in(fs::path(folder) / "..");
    const auto is_it = [&](const fs::path& of_run_path) {
      std::error_code missing;
      return fs::equivalent(of_run_path, folder, missing);
    };
    if (version == wanted_version || std::any_of(run_path.begin(), run_path.end(), is_it)) return true;
    throw Error(ExitStatus::usage, "LD_LIBRARY_PATH: " + printable(folder) + " has a " + library + " of " +
                                       (version.empty() ? "unknown version" : "version " + version) +
                                       ", which would be loaded instead of LibTorch " + wanted_version +
                                       "; remove that folder");
  }
  return false;
}

/// The folder of libraries to add to LD_LIBRARY_PATH; "" if the dynamic linker finds LibTorch without it.
std::string find_libtorch() {
  if (const std::string named = environment_value("WMTP_LIBTORCH"); !named.empty()) {
    const std::string problem = problem_of(named);
    if (problem.empty()) return fs::absolute(named) / "lib";
    throw Error(ExitStatus::usage, "WMTP_LIBTORCH: " + printable(named) + " " + problem +
                                       "; wanted the folder of torch " + wanted_version +
                                       ", as `python3 -c \"import torch; print(torch.__path__[0])\"` prints");
  }
  const fs::path engine = library_folder() / "libwmtp_engine.so";
  if (!fs::exists(engine)) return "";  // engine_program() reports it
  std::vector<std::string> searched = run_path(engine);
  if (loads_from_environment(searched) || std::any_of(searched.begin(), searched.end(), contains_library)) return "";
  for (const std::string& folder : split_search_path(environment_value("LD_LIBRARY_PATH"))) searched.push_back(folder);

  const auto [python, name] = users_python();
  if (python.empty()) {
    searched.push_back("found no " + name);
  } else {
    const std::string torch = torch_of(python), problem = torch.empty() ? "" : problem_of(torch);
    if (!torch.empty() && problem.empty()) return fs::path(torch) / "lib";
    searched.push_back(torch.empty() ? python.string() + " has no torch" : torch + " " + problem);
  }
  throw Error(ExitStatus::usage,
              "LibTorch " + std::string(wanted_version) + " (" + library +
                  ") is not found; searched: " + join_names(searched) + "; install torch==" + wanted_version +
                  " for that Python, name another one in WMTP_PYTHON, or name the folder of torch in WMTP_LIBTORCH");
}

}  // namespace

std::map<std::string, std::string> engine_environment() {
  static const std::string added = find_libtorch();
  std::map<std::string, std::string> environment = own_environment();
  if (added.empty()) return environment;
  std::vector<std::string> folders = split_search_path(environment_value("LD_LIBRARY_PATH"));
  folders.insert(folders.begin(), added);  // the user's may contain another version
  environment["LD_LIBRARY_PATH"] = fmt::format("{}", fmt::join(folders, ":"));
  return environment;
}

}  // namespace wmtp
