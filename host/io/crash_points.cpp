#include "io/crash_points.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <sstream>
#include <string>

#include "base/environment.hpp"
#include "base/error.hpp"

namespace wmtp {
namespace {

constexpr const char* variable = "WMTP_KILL_AT_SAVE";
constexpr std::array<const char*, 12> names{"copied",      "draft_made",     "half_a_file",      "file_written",
                                            "file_synced", "files_complete", "manifest_written", "folder_synced",
                                            "renamed",     "published",      "set_for_deletion", "deleted"};

struct Wanted {
  int point = -1;  ///< -1: none
  int time = 1;
  int signal = SIGKILL;
  std::string unknown;
};

Wanted read_variable() {
  Wanted wanted;
  const std::string text = environment_value(variable);
  if (text.empty()) return wanted;
  std::istringstream parts(text);
  std::string name, rank = "0", time = "1", how;
  std::getline(parts, name, ':');
  std::getline(parts, rank, ':');
  std::getline(parts, time, ':');
  std::getline(parts, how, ':');
  if (how == "stop") wanted.signal = SIGSTOP;
  int point = -1;
  for (size_t i = 0; i < names.size(); ++i)
    if (name == names[i]) point = int(i);
  if (point < 0) wanted.unknown = name;
  if (std::atoi(rank.c_str()) == std::atoi(environment_value("RANK").c_str())) wanted.point = point;
  wanted.time = std::atoi(time.c_str());
  return wanted;
}

const Wanted& wanted() {
  static const Wanted read = read_variable();
  return read;
}

}  // namespace

void crash_here(CrashPoint point) {
  static std::atomic<int> times = 0;
  if (wanted().point == int(point) && ++times == wanted().time) std::raise(wanted().signal);
}

void check_crash_points() {
  if (wanted().unknown.empty()) return;
  std::string known;
  for (const char* name : names) known += (known.empty() ? "" : ", ") + std::string(name);
  throw Error(ExitStatus::usage,
              std::string(variable) + ": unknown point '" + wanted().unknown + "'; wanted one of " + known);
}

}  // namespace wmtp
