#include "evaluate/usage_watch.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

/// The number on the line of a /proc file that begins with `name`.
std::optional<int64_t> number_in(const Descriptor& file, const std::string& name) {
  std::array<char, 4096> text{};
  const ssize_t size = pread(file.get(), text.data(), text.size(), 0);
  std::istringstream lines(std::string(text.data(), size_t(std::max<ssize_t>(size, 0))));
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(name)) return std::strtoll(line.c_str() + name.size(), nullptr, 10);
  return std::nullopt;
}

int open_proc(const std::string& process, const char* name) {
  return open(("/proc/" + process + "/" + name).c_str(), O_RDONLY | O_CLOEXEC);
}

/// Stops counting above `most`. Skips folders that are removed meanwhile.
int64_t files_below(const fs::path& folder, int64_t most) {
  int64_t count = 0;
  std::error_code ignored;
  for (fs::recursive_directory_iterator at(folder, fs::directory_options::skip_permission_denied, ignored), end;
       !ignored && at != end && count <= most; at.increment(ignored))
    ++count;
  return count;
}

}  // namespace

void check_usage_is_visible() {
  if (!number_in(Descriptor(open_proc("self", "io")), "wchar:"))
    throw Error(ExitStatus::usage,
                "this system does not report how much a process writes (/proc/self/io): a program under test could "
                "fill the disk; wanted a kernel with CONFIG_TASK_IO_ACCOUNTING and /proc");
}

UsageWatch::UsageWatch(const ConfinedProcess& process, fs::path folder, const UsageLimits& limits)
    : process_(process),
      folder_(std::move(folder)),
      limits_(limits),
      written_(open_proc(std::to_string(process.id()), "io")) {}

std::string UsageWatch::exceeded() const {
  std::string exceeded_now = find_exceeded();
  return process_.has_ended() ? "" : exceeded_now;
}

std::string UsageWatch::find_exceeded() const {
  const Descriptor status(open_proc(std::to_string(process_.id()), "status"));
  const auto written = number_in(written_, "wchar:"), threads = number_in(status, "Threads:");
  if (!written || !threads) return "hid its resource usage";
  if (*written > limits_.written_bytes)
    return "wrote more than " + std::to_string(limits_.written_bytes >> 20) + " MiB in total";
  if (*threads > limits_.threads) return "started more than " + std::to_string(limits_.threads) + " threads";
  if (files_below(folder_, limits_.files) > limits_.files)
    return "created more than " + with_thousands(limits_.files) + " files";
  return "";
}

}  // namespace wmtp
