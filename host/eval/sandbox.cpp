#include "eval/sandbox.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "base/error.hpp"
#include "base/scratch_folder.hpp"
#include "base/text.hpp"
#include "eval/confinement.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int end_descriptor = 3;         ///< where a program says that it came to its end
constexpr size_t most_output = 64 << 10;  ///< of which the last is kept
constexpr const char* its_end = "end";

Error failed(const std::string& what) { return {ExitStatus::storage, what + ": " + std::strerror(errno)}; }

/// As it is given: the Python of a virtual environment is a link to another one, and finds its packages by its own
/// path.
fs::path find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return access(name.c_str(), X_OK) == 0 ? fs::absolute(name) : fs::path();
  const char* path = std::getenv("PATH");
  std::string folders = path ? path : "/usr/local/bin:/usr/bin:/bin";
  for (size_t begin = 0; begin <= folders.size();) {
    const size_t end = std::min(folders.find(':', begin), folders.size());
    const fs::path file = fs::path(folders.substr(begin, end - begin)) / name;
    std::error_code ignored;
    if (fs::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0) return file;
    begin = end + 1;
  }
  return {};
}

/// What `program` itself says is its path: one found in PATH may be a script that looks for an interpreter, and it
/// would need processes of its own for that. "" when it is no Python.
fs::path interpreter_of(const fs::path& program) {
  std::string quoted;
  for (const char c : program.string()) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  const std::string command = "'" + quoted + "' -I -c 'import sys; print(sys.executable)' 2>/dev/null </dev/null";
  std::string told;
  if (std::FILE* answer = popen(command.c_str(), "r")) {
    std::array<char, 4096> line{};
    if (std::fgets(line.data(), int(line.size()), answer)) told = line.data();
    if (pclose(answer) != 0) told.clear();
  }
  while (!told.empty() && told.back() == '\n') told.pop_back();
  return told;
}

class Descriptor {
 public:
  explicit Descriptor(int number = -1) : number_(number) {}
  ~Descriptor() { reset(); }
  Descriptor(const Descriptor&) = delete;
  int get() const { return number_; }
  void set(int number) {
    reset();
    number_ = number;
  }
  void reset() {
    if (number_ >= 0) close(number_);
    number_ = -1;
  }

 private:
  int number_;
};

struct Pipe {
  Pipe() {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0 || fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) throw failed("no pipe");
    reading.set(ends[0]);
    writing.set(ends[1]);
  }
  Descriptor reading, writing;
};

/// Takes what is there and keeps the last of it. The descriptor does not block.
void read_all(int descriptor, std::string& text) {
  std::array<char, 4096> buffer{};
  ssize_t count = 0;
  while ((count = read(descriptor, buffer.data(), buffer.size())) > 0) {
    text.append(buffer.data(), size_t(count));
    if (text.size() > most_output) text.erase(0, text.size() - most_output);
  }
}

void write_program(const std::string& file, const std::string& program) {
  std::ofstream out(file, std::ios::binary);
  out << program << "\nimport os as _os\n_os.write(" << end_descriptor << ", b'" << its_end << "')\n";
  if (!out.flush()) throw failed(file);
}

std::string last_line(const std::string& text) {
  size_t end = text.find_last_not_of(" \n");
  if (end == std::string::npos) return "";
  const size_t begin = text.rfind('\n', end);
  return text.substr(begin == std::string::npos ? 0 : begin + 1, end - (begin == std::string::npos ? -1 : long(begin)));
}

/// All that the child needs, made before it: between fork and exec it makes system calls only.
struct Start {
  std::vector<sock_filter> filter;
  int rules = -1, output = -1, end = -1, null = -1;
  int64_t memory_bytes = 0, file_bytes = 0, cpu_seconds = 0;
  const char* folder = nullptr;
  const char* const* arguments = nullptr;
  const char* const* environment = nullptr;
};

[[noreturn]] void execute(const Start& start) {
  constexpr int refused = 127;
  // Out of the way first: one of them may have the number that another is to get.
  const int end = fcntl(start.end, F_DUPFD, 10), output = fcntl(start.output, F_DUPFD, 10),
            rules = fcntl(start.rules, F_DUPFD, 10);
  const bool ready = end >= 0 && output >= 0 && rules >= 0 && setsid() >= 0 && chdir(start.folder) == 0 &&
                     dup2(start.null, 0) >= 0 && dup2(output, 1) >= 0 && dup2(output, 2) >= 0 &&
                     dup2(end, end_descriptor) >= 0 && dup2(rules, end_descriptor + 1) >= 0 &&
                     syscall(SYS_close_range, end_descriptor + 2, ~0U, 0) == 0 &&
                     fcntl(end_descriptor + 1, F_SETFD, FD_CLOEXEC) == 0 &&
                     confine(end_descriptor + 1, start.filter, start.memory_bytes, start.file_bytes, start.cpu_seconds);
  if (ready) execve(start.arguments[0], const_cast<char**>(start.arguments), const_cast<char**>(start.environment));
  static constexpr char words[] = "the program could not be confined or started\n";
  [[maybe_unused]] const ssize_t told = write(2, words, sizeof words - 1);
  _exit(refused);
}

struct Ending {
  bool in_time = true;
  int status = 0;  ///< as waitpid says it
  std::string output, reached;
};

/// Ends the process at the deadline. It is alone: it could start no other.
Ending wait_for(pid_t child, int output, int end, Clock::time_point deadline) {
  Ending ending;
  const Descriptor process(int(syscall(SYS_pidfd_open, child, 0)));
  if (process.get() < 0) deadline = Clock::now();  // nothing would say that it has ended
  bool gone = false;
  while (!gone && ending.in_time) {
    pollfd open[] = {{output, POLLIN, 0}, {process.get(), POLLIN, 0}};
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    const int ready = left < 0 ? 0 : poll(open, 2, int(left) + 1);
    ending.in_time = ready != 0;
    if (ready <= 0) continue;
    read_all(output, ending.output);
    gone = open[1].revents != 0;
    if (!gone && (open[0].revents & POLLHUP)) output = -1;  // closed its output, and runs on
  }
  if (!ending.in_time) kill(child, SIGKILL);
  while (waitpid(child, &ending.status, 0) < 0 && errno == EINTR) {
  }
  read_all(output, ending.output);
  read_all(end, ending.reached);
  if (process.get() < 0) throw Error(ExitStatus::usage, "this system does not let a process wait for another (pidfd)");
  return ending;
}

std::string ending_text(int status, const std::string& output) {
  if (WIFSIGNALED(status)) return std::string("ended by ") + strsignal(WTERMSIG(status));
  const std::string line = last_line(output);
  if (!line.empty()) return line;
  return WEXITSTATUS(status) == 0 ? "exited before its end" : "exited with " + std::to_string(WEXITSTATUS(status));
}

}  // namespace

const char* to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::passed:
      return "passed";
    case Verdict::failed:
      return "failed";
    case Verdict::timed_out:
      return "timed_out";
  }
  return "";
}

Sandbox::Sandbox(const std::string& python, const SandboxLimits& limits) : limits_(limits) {
  const fs::path program = find_program(python);
  if (program.empty())
    throw Error(ExitStatus::usage, "found no program '" + python + "' to run tests with; name one with --python");
  python_ = interpreter_of(program);
  if (access(python_.c_str(), X_OK) != 0)
    throw Error(ExitStatus::usage,
                program.string() + " is no Python, which is to run the tests; name one with --python");
  const ScratchFolder folder;
  close(rules_for_writing_below(folder.path()));
}

Sandbox::~Sandbox() = default;

Judged Sandbox::run(const std::string& program) const {
  const auto begun = Clock::now();
  const ScratchFolder folder;
  const std::string file = folder.path() / "program.py";
  write_program(file, program);
  const Descriptor rules(rules_for_writing_below(folder.path())), null(open("/dev/null", O_RDONLY | O_CLOEXEC));
  Pipe output, end;
  const std::string home = "HOME=" + folder.path().string();
  const char* const arguments[] = {python_.c_str(), "-I", "-B", file.c_str(), nullptr};
  const char* const environment[] = {home.c_str(),        "PATH=/usr/bin:/bin", "PYTHONHASHSEED=0",
                                     "OMP_NUM_THREADS=1", "LANG=C.UTF-8",       nullptr};
  const Start start{.filter = system_call_filter(),
                    .rules = rules.get(),
                    .output = output.writing.get(),
                    .end = end.writing.get(),
                    .null = null.get(),
                    .memory_bytes = limits_.memory_bytes,
                    .file_bytes = limits_.file_bytes,
                    .cpu_seconds = int64_t(std::ceil(limits_.seconds)) + 1,
                    .folder = folder.path().c_str(),
                    .arguments = arguments,
                    .environment = environment};
  const pid_t child = fork();
  if (child < 0) throw failed("no process for a program under test");
  if (child == 0) execute(start);
  const auto allowed = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits_.seconds));
  Ending ending = wait_for(child, output.reading.get(), end.reading.get(), begun + allowed);
  const double seconds = std::chrono::duration<double>(Clock::now() - begun).count();
  if (!ending.in_time || (WIFSIGNALED(ending.status) && WTERMSIG(ending.status) == SIGXCPU))
    return {Verdict::timed_out, printed("not at its end after %g s", limits_.seconds), seconds};
  if (WIFEXITED(ending.status) && WEXITSTATUS(ending.status) == 0 && ending.reached == its_end)
    return {Verdict::passed, "", seconds};
  return {Verdict::failed, ending_text(ending.status, ending.output), seconds};
}

}  // namespace wmtp
