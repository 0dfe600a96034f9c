#include "process/captured_child.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/error.hpp"

extern char** environ;

namespace wmtp {
namespace {

constexpr size_t output_limit = 4 << 20;
constexpr size_t messages_limit = 16 << 10;

/// The reading end of a pipe whose writing end becomes the child's stdout or stderr.
class Pipe {
 public:
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Error(ExitStatus::storage, std::string("no pipe: ") + std::strerror(errno));
    read_end = ends[0];
    write_end = ends[1];
    fcntl(read_end, F_SETFL, O_NONBLOCK);
  }
  Pipe(const Pipe&) = delete;
  ~Pipe() {
    close_end(read_end);
    close_end(write_end);
  }
  static void close_end(int& end) {
    if (end >= 0) close(end);
    end = -1;
  }

  int read_end = -1;
  int write_end = -1;
};

pid_t start(const std::filesystem::path& program, const std::vector<std::string>& arguments, const Pipe& output,
            const Pipe& messages) {
  std::vector<char*> argv{const_cast<char*>(program.c_str())};
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, output.write_end, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, messages.write_end, STDERR_FILENO);

  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  for (int signal : {SIGINT, SIGTERM, SIGPIPE, SIGUSR1, SIGCHLD}) sigaddset(&usual, signal);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

  pid_t child = -1;
  const int failure = posix_spawn(&child, program.c_str(), &actions, &attributes, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (failure != 0) {
    throw Error(ExitStatus::plugin, "cannot start " + program.string() + " to look at a plugin: " +
                                        std::strerror(failure) + "; build or install the program again");
  }
  return child;
}

/// Takes what is there; closes the end at its end.
void drain(Pipe& pipe, std::string& text) {
  char buffer[16384];
  while (pipe.read_end >= 0) {
    const ssize_t count = read(pipe.read_end, buffer, sizeof buffer);
    if (count > 0) text.append(buffer, static_cast<size_t>(count));
    if (count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR)) Pipe::close_end(pipe.read_end);
    if (count < 0 && errno == EAGAIN) return;
    if (text.size() > output_limit) return;
  }
}

}  // namespace

ChildResult run_child(const std::filesystem::path& program, const std::vector<std::string>& arguments,
                      std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  const auto deadline = Clock::now() + limit;
  Pipe output, messages;
  const pid_t child = start(program, arguments, output, messages);
  Pipe::close_end(output.write_end);
  Pipe::close_end(messages.write_end);

  ChildResult result;
  int status = 0;
  bool ended = false;
  while (!ended) {
    // The short wait is for a child that ends while something it started still holds the pipes.
    pollfd ends[] = {{output.read_end, POLLIN, 0}, {messages.read_end, POLLIN, 0}};
    poll(ends, 2, output.read_end < 0 && messages.read_end < 0 ? 5 : 50);
    ended = waitpid(child, &status, WNOHANG) != 0;
    drain(output, result.output);
    drain(messages, result.messages);
    if (result.messages.size() > messages_limit) {
      result.messages.erase(0, result.messages.size() - messages_limit);
    }
    if (!ended && (Clock::now() >= deadline || result.output.size() > output_limit)) {
      result.timed_out = Clock::now() >= deadline;
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      ended = true;
    }
  }
  kill(-child, SIGKILL);
  result.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  result.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  return result;
}

}  // namespace wmtp
