#include "evaluate/confined_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "evaluate/confinement.hpp"
#include "evaluate/system_calls.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr size_t max_output_bytes = 64 << 10;  ///< of output, the last bytes of which are kept

/// `output` becomes descriptors 1 and 2, the Landlock rules the last one.
ChildProcess started(const ProcessStart& start, int output) {
  const std::string folder = start.folder.empty() ? "/" : start.folder.string();
  const FileDescriptor rules(landlock_rules(start.folder));
  const std::vector<sock_filter> filter = system_call_filter();
  ChildRequest request;
  request.program = start.arguments.front();
  request.arguments.assign(start.arguments.begin() + 1, start.arguments.end());
  request.environment = {"HOME=" + folder, "PATH=/usr/bin:/bin", "PYTHONHASHSEED=0", "OMP_NUM_THREADS=1",
                         "LANG=C.UTF-8"};
  request.descriptors = {start.input, output, output};
  request.descriptors.insert(request.descriptors.end(), start.descriptors.begin(), start.descriptors.end());
  request.descriptors.push_back(rules.get());
  const int placed_rules = int(request.descriptors.size()) - 1;
  request.before_exec = [&] {
    umask(S_IWGRP | S_IWOTH);  // the program is judged alike, whatever the umask of this process
    return fcntl(placed_rules, F_SETFD, FD_CLOEXEC) == 0 && chdir(folder.c_str()) == 0 &&
           confine(placed_rules, filter, start.memory_bytes, start.file_bytes, start.cpu_seconds);
  };
  return ChildProcess(request);
}

/// The number on the line of a /proc file that starts with `name`.
std::optional<int64_t> number_in(const FileDescriptor& file, const std::string& name) {
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

/// What is too much below a folder; "" if nothing. Opens one folder at a time. Skips folders that are removed
/// meanwhile.
std::string excess_below(const fs::path& top, const UsageLimits& limits) {
  const std::string too_deep = "created folders more than " + std::to_string(limits.depth) + " deep";
  std::vector<std::pair<fs::path, int64_t>> to_see{{top, 0}};
  int64_t files = 0;
  while (!to_see.empty()) {
    const auto [folder, depth] = std::move(to_see.back());
    to_see.pop_back();
    std::error_code error;
    fs::directory_iterator at(folder, error);
    if (error == std::errc::permission_denied) return "hid its files";
    if (error == std::errc::filename_too_long) return too_deep;
    for (; !error && at != fs::directory_iterator(); at.increment(error)) {
      if (++files > limits.files) return "created more than " + with_thousands(limits.files) + " files";
      std::error_code ignored;
      if (at->symlink_status(ignored).type() != fs::file_type::directory) continue;
      if (depth == limits.depth) return too_deep;
      to_see.emplace_back(at->path(), depth + 1);
    }
  }
  return "";
}

}  // namespace

ConfinedProcess::ConfinedProcess(const ProcessStart& start)
    : output_(Pipe::open()), process_(started(start, output_.write_end.get())) {
  output_.write_end.reset();
  fcntl(output(), F_SETFL, O_NONBLOCK);
  exit_ = FileDescriptor(int(syscall(SYS_pidfd_open, process_.id(), 0)));
  if (exit_.get() < 0)
    throw Error(ExitStatus::usage,
                "this system lacks pidfd_open, which waits for a program under test; use Linux 5.13 or newer");
}

bool ConfinedProcess::has_ended() const {
  pollfd ended{exit_.get(), POLLIN, 0};
  return poll(&ended, 1, 0) == 1;
}

void ConfinedProcess::take_output() { read_available(output(), text_, max_output_bytes); }

int ConfinedProcess::end() {
  process_.kill_group();
  const int status = process_.wait();
  take_output();
  return status;
}

std::string ConfinedProcess::final_message() {
  const int status = process_.wait();
  if (WIFSIGNALED(status)) return std::string("ended by ") + strsignal(WTERMSIG(status));
  const std::string line = last_line(text_);
  if (!line.empty()) return line;
  const int code = WEXITSTATUS(status);
  return code == 0 ? "exited before its end" : "exited with " + std::to_string(code);
}

void check_usage_is_visible() {
  if (!number_in(FileDescriptor(open_proc("self", "io")), "wchar:"))
    throw Error(ExitStatus::usage,
                "this system does not report how much a process writes (/proc/self/io): a program under test could "
                "fill the disk; use a kernel with CONFIG_TASK_IO_ACCOUNTING, and mount /proc");
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
  const FileDescriptor status(open_proc(std::to_string(process_.id()), "status"));
  const auto written = number_in(written_, "wchar:"), threads = number_in(status, "Threads:");
  if (!written || !threads) return "hid its resource usage";
  if (*written > limits_.written_bytes)
    return "wrote more than " + std::to_string(limits_.written_bytes >> 20) + " MiB in total";
  if (*threads > limits_.threads) return "started more than " + std::to_string(limits_.threads) + " threads";
  return excess_below(folder_, limits_);
}

}  // namespace wmtp
