#include "evaluate/confined_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>

#include "base/error.hpp"
#include "evaluate/confinement.hpp"
#include "evaluate/system_calls.hpp"

namespace wmtp {
namespace {

constexpr size_t most_output = 64 << 10;  ///< of which the last is kept
std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const size_t before = text.rfind('\n', end);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, end + 1 - begin);
}

/// `output` becomes descriptors 1 and 2, the Landlock rules the last one.
ChildProcess started(const ProcessStart& start, int output) {
  const std::string folder = start.folder.empty() ? "/" : start.folder.string();
  const Descriptor rules(rules_for_writing_below(start.folder));
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
    return fcntl(placed_rules, F_SETFD, FD_CLOEXEC) == 0 && chdir(folder.c_str()) == 0 &&
           confine(placed_rules, filter, start.memory_bytes, start.file_bytes, start.cpu_seconds);
  };
  return ChildProcess(request);
}

}  // namespace

ConfinedProcess::ConfinedProcess(const ProcessStart& start)
    : output_(Pipe::open()), process_(started(start, output_.write_end.get())) {
  output_.write_end.reset();
  fcntl(output(), F_SETFL, O_NONBLOCK);
  exit_ = Descriptor(int(syscall(SYS_pidfd_open, process_.id(), 0)));
  if (exit_.get() < 0) throw Error(ExitStatus::usage, "this system does not let a process wait for another (pidfd)");
}

bool ConfinedProcess::has_ended() const {
  pollfd ended{exit_.get(), POLLIN, 0};
  return poll(&ended, 1, 0) == 1;
}

void ConfinedProcess::take_output() { read_available(output(), text_, most_output); }

int ConfinedProcess::end() {
  process_.kill_group();
  const int status = process_.wait();
  take_output();
  return status;
}

std::string ConfinedProcess::told() {
  const int status = process_.wait();
  if (WIFSIGNALED(status)) return std::string("ended by ") + strsignal(WTERMSIG(status));
  const std::string line = last_line(text_);
  if (!line.empty()) return line;
  const int code = WEXITSTATUS(status);
  return code == 0 ? "exited before its end" : "exited with " + std::to_string(code);
}

}  // namespace wmtp
