#include "evaluate/confined_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/error.hpp"
#include "evaluate/confinement.hpp"
#include "evaluate/system_calls.hpp"

namespace wmtp {
namespace {

constexpr size_t most_output = 64 << 10;  ///< bytes kept, the last ones
constexpr int most_descriptors = 8, out_of_the_way = 64;

/// Prepared before the fork: between fork and exec the child makes system calls only.
struct Child {
  std::vector<sock_filter> filter = {};
  std::array<int, most_descriptors> descriptors{};  ///< by number in the child; the last is the Landlock rules
  int count = 0;
  const char* folder = nullptr;
  std::vector<const char*> arguments = {}, environment = {};
  int64_t memory_bytes = 0, file_bytes = 0, cpu_seconds = 0;
};

/// Duplicates to high numbers first, because one of them may have the target number of another.
bool place_descriptors(const Child& child) {
  std::array<int, most_descriptors> aside{};
  for (int i = 0; i < child.count; ++i)
    if ((aside[i] = fcntl(child.descriptors[i], F_DUPFD, out_of_the_way)) < 0) return false;
  for (int i = 0; i < child.count; ++i)
    if (dup2(aside[i], i) < 0) return false;
  return syscall(SYS_close_range, child.count, ~0U, 0) == 0 && fcntl(child.count - 1, F_SETFD, FD_CLOEXEC) == 0;
}

[[noreturn]] void execute(const Child& child) {
  constexpr int refused = 127;
  const bool ready = place_descriptors(child) && setsid() >= 0 && chdir(child.folder) == 0 &&
                     confine(child.count - 1, child.filter, child.memory_bytes, child.file_bytes, child.cpu_seconds);
  if (ready)
    execve(child.arguments[0], const_cast<char**>(child.arguments.data()),
           const_cast<char**>(child.environment.data()));
  static constexpr char words[] = "the program could not be confined or started\n";
  [[maybe_unused]] const ssize_t told = write(2, words, sizeof words - 1);
  _exit(refused);
}

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const size_t before = text.rfind('\n', end);
  const size_t begin = before == std::string::npos ? 0 : before + 1;
  return text.substr(begin, end + 1 - begin);
}

}  // namespace

void Descriptor::reset(int number) {
  if (number_ >= 0) close(number_);
  number_ = number;
}

Pipe::Pipe() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0)
    throw Error(ExitStatus::storage, std::string("cannot create a pipe: ") + std::strerror(errno));
  reading.reset(ends[0]);
  writing.reset(ends[1]);
}

ConfinedProcess::ConfinedProcess(const ProcessStart& start) {
  const std::string folder = start.folder.empty() ? "/" : start.folder.string(), home = "HOME=" + folder;
  const Descriptor rules(rules_for_writing_below(start.folder));
  fcntl(output_.reading.get(), F_SETFL, O_NONBLOCK);
  Child child{.filter = system_call_filter(),
              .folder = folder.c_str(),
              .environment = {home.c_str(), "PATH=/usr/bin:/bin", "PYTHONHASHSEED=0", "OMP_NUM_THREADS=1",
                              "LANG=C.UTF-8", nullptr},
              .memory_bytes = start.memory_bytes,
              .file_bytes = start.file_bytes,
              .cpu_seconds = start.cpu_seconds};
  for (const std::string& argument : start.arguments) child.arguments.push_back(argument.c_str());
  child.arguments.push_back(nullptr);
  const auto give = [&child](int descriptor) { child.descriptors.at(size_t(child.count++)) = descriptor; };
  give(start.input);
  for ([[maybe_unused]] const int number : {1, 2}) give(output_.writing.get());
  for (const int descriptor : start.descriptors) give(descriptor);
  give(rules.get());
  id_ = fork();
  if (id_ < 0) throw Error(ExitStatus::storage, std::string("cannot start a process: ") + std::strerror(errno));
  if (id_ == 0) execute(child);
  output_.writing.reset();
  exit_.reset(int(syscall(SYS_pidfd_open, id_, 0)));
  if (exit_.get() >= 0) return;
  end();
  throw Error(ExitStatus::usage, "this system has no pidfd_open, which eval needs to wait for programs");
}

bool ConfinedProcess::has_ended() const {
  pollfd ended{exit_.get(), POLLIN, 0};
  return id_ < 0 || poll(&ended, 1, 0) == 1;
}

void ConfinedProcess::take_output() {
  std::array<char, 4096> buffer{};
  ssize_t count = 0;
  while ((count = read(output(), buffer.data(), buffer.size())) > 0) {
    text_.append(buffer.data(), size_t(count));
    if (text_.size() > most_output) text_.erase(0, text_.size() - most_output);
  }
}

int ConfinedProcess::end() {
  if (id_ < 0) return status_;
  kill(id_, SIGKILL);
  while (waitpid(id_, &status_, 0) < 0 && errno == EINTR) {
  }
  id_ = -1;
  take_output();
  return status_;
}

std::string ConfinedProcess::told() const {
  if (WIFSIGNALED(status_)) return std::string("ended by ") + strsignal(WTERMSIG(status_));
  const std::string line = last_line(text_);
  if (!line.empty()) return line;
  const int code = WEXITSTATUS(status_);
  return code == 0 ? "exited before its end" : "exited with " + std::to_string(code);
}

}  // namespace wmtp
