#include "process/child_process.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "base/environment.hpp"
#include "base/error.hpp"
#include "base/system_limits.hpp"
#include "base/text.hpp"
#include "process/child_setup.hpp"
#include "process/stop_requests.hpp"

namespace wmtp {
namespace {

constexpr size_t output_limit = 4 << 20, messages_limit = 16 << 10;
constexpr int max_descriptors = 16;

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// [in the child] Moves `count` descriptors to 0, 1, 2, … and closes all others except `failure`, which gets the next
/// number. Moves them to higher numbers first, because a target number may be in use by another of them.
bool place_descriptors(const int* descriptors, int count, int& failure) {
  std::array<int, max_descriptors + 1> moved{};
  for (int i = 0; i <= count; ++i)
    if ((moved[i] = fcntl(i < count ? descriptors[i] : failure, F_DUPFD, count + 1)) < 0) return false;
  for (int i = 0; i <= count; ++i)
    if (dup2(moved[i], i) < 0) return false;
  failure = count;
  return fcntl(failure, F_SETFD, FD_CLOEXEC) == 0 && syscall(SYS_close_range, count + 1, ~0U, 0) == 0;
}

/// [in the child]
[[noreturn]] void run_code(const std::function<int()>& code) noexcept {
  syscall(SYS_close_range, STDERR_FILENO + 1, ~0U, 0);  // `failure` too: the parent learns that the child has started
  const int status = code();
  std::fflush(nullptr);
  _exit(status);
}

/// [in the child] Async-signal-safe calls only, unless it runs code of this process.
[[noreturn]] void execute(const ChildRequest& request, char** arguments, char** environment, pid_t parent, int out,
                          int err, int failure) {
  end_with_parent(parent, request.parent_death_signal);
  use_default_signals(request.signal_mask);
  bool ready = true;
  if (request.descriptors.empty()) {
    setpgid(0, 0);
    place_standard_streams(request.input, out, err);
  } else {
    const int count = int(request.descriptors.size());
    ready = setsid() >= 0 && place_descriptors(request.descriptors.data(), count, failure);
  }
  if (ready && request.code) run_code(request.code);
  if (ready && (!request.before_exec || request.before_exec())) execve(arguments[0], arguments, environment);
  const int error = errno;
  [[maybe_unused]] const auto written = write(failure, &error, sizeof error);
  _exit(127);
}

/// The errno sent by a child that failed before exec; 0 after exec, which closes the pipe.
int start_failure(int pipe) {
  int error = 0;
  const ssize_t count = retry_interrupted([&] { return read(pipe, &error, sizeof error); });
  return count == sizeof error ? error : 0;
}

}  // namespace

Pipe Pipe::open() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw_system("cannot create a pipe to a child process", errno);
  return {FileDescriptor(ends[0]), FileDescriptor(ends[1])};
}

ChildProcess::ChildProcess(const ChildRequest& request) {
  if (request.descriptors.size() > max_descriptors)
    throw Error(ExitStatus::bug, "too many descriptors for a child process");
  if (request.code) prepare_fork_without_exec();
  Pipe out, err, failure = Pipe::open();
  if (request.descriptors.empty() && !request.inherit_stdout) out = Pipe::open();
  if (request.descriptors.empty() && !request.inherit_stderr) err = Pipe::open();
  std::vector<std::string> arguments{request.program.string()};
  arguments.insert(arguments.end(), request.arguments.begin(), request.arguments.end());
  auto argument_pointers = pointers(arguments), environment_pointers = pointers(request.environment);

  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) throw_system("cannot start " + request.program.string(), errno);
  if (child == 0)
    execute(request, argument_pointers.data(), environment_pointers.data(), parent, out.write_end.get(),
            err.write_end.get(), failure.write_end.get());
  failure.write_end.reset();
  if (const int error = start_failure(failure.read_end.get())) {
    waitpid(child, nullptr, 0);
    throw_system("cannot start " + request.program.string(), error);
  }
  own(child, std::move(out.read_end), std::move(err.read_end));
}

void ChildProcess::own(pid_t child, FileDescriptor out, FileDescriptor err) {
  id_ = child;
  stdout_ = std::move(out);
  stderr_ = std::move(err);
  for (const FileDescriptor* pipe : {&stdout_, &stderr_})
    if (pipe->get() >= 0) fcntl(pipe->get(), F_SETFL, O_NONBLOCK);
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : id_(std::exchange(other.id_, -1)),
      status_(other.status_),
      stdout_(std::move(other.stdout_)),
      stderr_(std::move(other.stderr_)) {}

ChildProcess::~ChildProcess() {
  if (id_ <= 0 || status_) return;
  kill_group();
  while (waitpid(id_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

std::optional<int> ChildProcess::wait_status() {
  siginfo_t ended{};
  if (!status_ && waitid(P_PID, id_t(id_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid) {
    kill(-id_, SIGKILL);  // its own children must not outlive it; until reaped, it still holds the group's id
    int status = 0;
    waitpid(id_, &status, 0);
    status_ = status;
  }
  return status_;
}

int ChildProcess::wait() {
  siginfo_t ended{};
  while (!wait_status())
    if (waitid(P_PID, id_t(id_), &ended, WEXITED | WNOWAIT) != 0 && errno != EINTR)
      throw_system("cannot wait for a child process", errno);
  return *status_;
}

void ChildProcess::send(int signal) {
  if (!status_) kill(id_, signal);
}

void ChildProcess::repeat_stop(int signal) {
  if (!status_) wmtp::repeat_stop(id_, signal);
}

void ChildProcess::kill_group() {
  if (!status_) kill(-id_, SIGKILL);
}

bool read_available(int pipe, std::string& text, size_t limit) {
  std::array<char, 16384> buffer;
  for (int reads = 0; reads < 64; ++reads) {
    const ssize_t count = read(pipe, buffer.data(), buffer.size());
    if (count < 0) return errno == EAGAIN || errno == EINTR;
    if (count == 0) return false;
    text.append(buffer.data(), size_t(count));
    if (text.size() > limit) text.erase(0, text.size() - limit);
  }
  return true;
}

ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                      std::chrono::milliseconds limit) {
  ChildRequest request;
  request.program = program;
  request.arguments = arguments;
  return run_child(request, limit);
}

ChildResult run_child(const ChildRequest& request, std::chrono::milliseconds limit) {
  ChildProcess child(request);
  return finish_child(child, limit);
}

ChildResult finish_child(ChildProcess& child, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + limit;
  ChildResult result;
  pollfd pipes[] = {{child.stdout_pipe(), POLLIN, 0}, {child.stderr_pipe(), POLLIN, 0}};
  std::optional<int> status;
  while (!status) {
    // A child's own children may keep the pipes open after its end, so this waits only briefly.
    poll(pipes, 2, pipes[0].fd < 0 && pipes[1].fd < 0 ? 5 : 50);
    status = child.wait_status();
    if (pipes[0].fd >= 0 && !read_available(pipes[0].fd, result.output, output_limit + 1)) pipes[0].fd = -1;
    if (pipes[1].fd >= 0 && !read_available(pipes[1].fd, result.messages, messages_limit)) pipes[1].fd = -1;
    result.timed_out = !status && Clock::now() >= deadline;
    if (!status && (result.timed_out || result.output.size() > output_limit)) {
      child.kill_group();
      status = child.wait();
    }
  }
  result.wait_status = *status;
  result.exit_code = WIFEXITED(*status) ? WEXITSTATUS(*status) : 0;
  result.signal = WIFSIGNALED(*status) ? WTERMSIG(*status) : 0;
  return result;
}

std::map<std::string, std::string> own_environment() {
  std::map<std::string, std::string> variables;
  for (char** entry = environ; *entry; ++entry) {
    const std::string text = *entry;
    const auto equals = text.find('=');
    if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return variables;
}

std::vector<std::string> environment_entries(const std::map<std::string, std::string>& variables) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  return entries;
}

std::filesystem::path find_program(const std::string& name) {
  namespace fs = std::filesystem;
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? fs::absolute(name) : fs::path();
  const std::string path = environment_value("PATH");
  for (const std::string& folder : split_search_path(path.empty() ? "/usr/local/bin:/usr/bin:/bin" : path)) {
    const fs::path file = fs::path(folder) / name;
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

std::filesystem::path own_program(const std::filesystem::path& link) {
  std::error_code failure;
  const auto program = std::filesystem::read_symlink(link, failure);
  if (failure)
    throw Error(ExitStatus::storage, "cannot find this program through " + link.string() + ": " + failure.message() +
                                         "; mount /proc, which is needed to start ranks");
  return program;
}

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

ExitStatus failure_status(int wait_status) {
  if (!limits_text_for_exit(wait_status).empty()) return ExitStatus::storage;
  if (was_not_loaded(wait_status)) return ExitStatus::usage;
  if (!WIFEXITED(wait_status)) return ExitStatus::bug;
  const auto status = ExitStatus(WEXITSTATUS(wait_status));
  for (const auto reported : {ExitStatus::usage, ExitStatus::storage, ExitStatus::device_memory})
    if (status == reported) return status;
  return ExitStatus::bug;
}

bool was_not_loaded(int wait_status) { return WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 127; }

std::string exit_text(int wait_status, const std::string& when) {
  const std::string then = when.empty() ? "" : " " + when, limits = limits_text_for_exit(wait_status);
  if (WIFSIGNALED(wait_status)) return "was killed by " + signal_name(WTERMSIG(wait_status)) + then + limits;
  const std::string text = "ended with exit code " + std::to_string(WEXITSTATUS(wait_status));
  const std::string path = environment_value("LD_LIBRARY_PATH");
  if (!was_not_loaded(wait_status)) return text + then + limits;
  return text + ", that of the dynamic linker, which printed what it misses" + limits +
         (path.empty() ? "" : "; LD_LIBRARY_PATH is " + path + ", where libraries may be of another version");
}

}  // namespace wmtp
