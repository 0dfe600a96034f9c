#include "process/child_process.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.hpp"

namespace wmtp {
namespace {

[[noreturn]] void throw_system(const std::string& what, int error) {
  throw Error(ExitStatus::storage, what + ": " + std::strerror(error));
}

struct Pipe {
  int read_end = -1, write_end = -1;
  void open() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw_system("cannot make a pipe to a rank", errno);
    read_end = ends[0];
    write_end = ends[1];
  }
  void close_write_end() {
    if (write_end >= 0) close(write_end);
    write_end = -1;
  }
  int release_read_end() { return std::exchange(read_end, -1); }
  ~Pipe() {
    close_write_end();
    if (read_end >= 0) close(read_end);
  }
};

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> result;
  for (const auto& text : texts) result.push_back(const_cast<char*>(text.c_str()));
  result.push_back(nullptr);
  return result;
}

/// Between fork and exec: async-signal-safe calls only.
[[noreturn]] void become(const char* program, char** arguments, char** environment, const sigset_t& mask, pid_t parent,
                         int out, int err, int failure) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(127);  // it died before the line above took effect
  setpgid(0, 0);
  // Ignored signals stay ignored over exec: nohup and background jobs of a plain shell start us with SIGINT ignored.
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGCHLD}) std::signal(signal, SIG_DFL);
  std::signal(SIGTTOU, SIG_IGN);  // a group in the background may then write to a terminal with TOSTOP set
  sigprocmask(SIG_SETMASK, &mask, nullptr);
  const int null = open("/dev/null", O_RDONLY);
  if (null >= 0) dup2(null, STDIN_FILENO);
  if (out >= 0) dup2(out, STDOUT_FILENO);
  if (err >= 0) dup2(err, STDERR_FILENO);
  execve(program, arguments, environment);
  const int error = errno;
  [[maybe_unused]] const auto written = write(failure, &error, sizeof error);
  _exit(127);
}

}  // namespace

ChildProcess::ChildProcess(const ChildRequest& request) {
  Pipe out, err, failure;
  if (!request.inherit_stdout) out.open();
  if (!request.inherit_stderr) err.open();
  failure.open();  // closed by a successful exec, carries errno of a failed one
  std::vector<std::string> arguments{request.program.string()};
  arguments.insert(arguments.end(), request.arguments.begin(), request.arguments.end());
  const auto argument_pointers = pointers(arguments);
  const auto environment_pointers = pointers(request.environment);

  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) throw_system("cannot start a rank", errno);
  if (pid_ == 0) {
    become(request.program.c_str(), const_cast<char**>(argument_pointers.data()),
           const_cast<char**>(environment_pointers.data()), request.signal_mask, parent, out.write_end, err.write_end,
           failure.write_end);
  }
  setpgid(pid_, pid_);  // in both processes: whichever comes first
  failure.close_write_end();
  int error = 0;
  ssize_t got;
  do got = read(failure.read_end, &error, sizeof error);
  while (got < 0 && errno == EINTR);
  if (got == sizeof error) {
    waitpid(pid_, nullptr, 0);
    throw_system("cannot run '" + request.program.string() + "' as a rank", error);
  }
  stdout_ = out.release_read_end();
  stderr_ = err.release_read_end();
  for (int fd : {stdout_, stderr_}) {
    if (fd >= 0) fcntl(fd, F_SETFL, O_NONBLOCK);
  }
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      stdout_(std::exchange(other.stdout_, -1)),
      stderr_(std::exchange(other.stderr_, -1)),
      status_(other.status_) {}

ChildProcess::~ChildProcess() {
  if (pid_ > 0 && !status_) {
    kill_group();
    while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  for (int fd : {stdout_, stderr_}) {
    if (fd >= 0) close(fd);
  }
}

std::optional<int> ChildProcess::wait_status() {
  siginfo_t ended{};
  if (!status_ && waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid) {
    kill(-pid_, SIGKILL);  // what it started itself must not outlive it; unreaped, it still holds the group's id
    int status = 0;
    waitpid(pid_, &status, 0);
    status_ = status;
  }
  return status_;
}

int ChildProcess::wait() {
  siginfo_t ended{};
  while (!wait_status())
    if (waitid(P_PID, static_cast<id_t>(pid_), &ended, WEXITED | WNOWAIT) != 0 && errno != EINTR)
      throw_system("cannot wait for a child process", errno);
  return *status_;
}

void ChildProcess::send(int signal) {
  if (!status_) kill(pid_, signal);
}

void ChildProcess::kill_group() {
  if (!status_) kill(-pid_, SIGKILL);
}

std::filesystem::path own_program(const std::filesystem::path& link) {
  std::error_code failure;
  const auto program = std::filesystem::read_symlink(link, failure);
  if (failure)
    throw Error(ExitStatus::storage, "cannot find this program by " + link.string() + ": " + failure.message() +
                                         "; mount /proc, ranks are started by it");
  return program;
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

std::string signal_name(int signal) {
  const char* name = sigabbrev_np(signal);
  return name ? std::string("SIG") + name : "signal " + std::to_string(signal);
}

}  // namespace wmtp
