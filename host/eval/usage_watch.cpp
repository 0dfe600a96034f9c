#include "eval/usage_watch.hpp"

#include <cstdlib>
#include <fstream>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// The number of the line that begins with `name`, in a file of /proc.
std::optional<int64_t> number_in(const fs::path& file, const std::string& name) {
  std::ifstream lines(file);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name)) return std::strtoll(line.c_str() + name.size(), nullptr, 10);
  return std::nullopt;
}

/// Stops counting above `most`. Folders that vanish while they are read are left out.
int64_t files_below(const fs::path& folder, int64_t most) {
  int64_t count = 0;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, ignored), end;
       !ignored && at != end && count <= most; at.increment(ignored))
    ++count;
  return count;
}

}  // namespace

void check_usage_is_told() {
  if (!number_in("/proc/self/io", "wchar:"))
    throw Error(ExitStatus::usage,
                "this system does not tell what a process writes (/proc/self/io): a program under test could fill the "
                "disk; wanted a kernel with CONFIG_TASK_IO_ACCOUNTING and /proc");
}

std::string exceeded(pid_t pid, const fs::path& folder, const UsageLimits& limits) {
  const fs::path process = fs::path("/proc") / std::to_string(pid);
  const auto written = number_in(process / "io", "wchar:"), threads = number_in(process / "status", "Threads:");
  if (!written || !threads) return "hid what it uses";
  if (*written > limits.written_bytes)
    return "wrote more than " + std::to_string(limits.written_bytes >> 20) + " MiB in all";
  if (*threads > limits.threads) return "started more than " + std::to_string(limits.threads) + " threads";
  if (files_below(folder, limits.files) > limits.files)
    return "made more than " + with_thousands(limits.files) + " files";
  return "";
}

}  // namespace wmtp
