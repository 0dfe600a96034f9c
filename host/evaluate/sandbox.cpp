#include "evaluate/sandbox.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>

#include "base/embedded.hpp"
#include "base/error.hpp"
#include "base/json.hpp"
#include "base/system_limits.hpp"
#include "base/text.hpp"
#include "evaluate/confinement.hpp"
#include "io/scratch_folder.hpp"
#include "process/python_program.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds interpreter_start_limit(60);
constexpr double seconds_for_a_check = 20;
constexpr std::chrono::milliseconds watch_interval(10);  ///< between checks of the program's usage

Error failed(const std::string& what) { return {ExitStatus::storage, what + ": " + std::strerror(errno)}; }

/// The path reported by `program` itself: a program in PATH may be a script that starts the interpreter, which a
/// confined process could not do. "" if it is not Python.
fs::path interpreter_of(const fs::path& program) {
  try {
    const ChildResult child =
        run_child(program, isolated_python_arguments("import sys; print(sys.executable)"), interpreter_start_limit);
    if (child.exit_code == 0 && child.signal == 0) return first_line(child.output);
  } catch (const Error& error) {  // a file that the system cannot execute
    throw_if_limit_caused(error);
  }
  return {};
}

/// Error(usage) if the program does not exist or is not Python.
fs::path find_interpreter(const std::string& python) {
  const auto [program, name] = users_python(python);
  if (program.empty()) throw Error(ExitStatus::usage, "found no " + name + " to run tests; name one with --python");
  const fs::path interpreter = interpreter_of(program);
  if (access(interpreter.c_str(), X_OK) != 0)
    throw Error(ExitStatus::usage, program.string() + " is not Python, which runs the tests; name one with --python");
  return interpreter;
}

fs::path write_program(const fs::path& folder, const std::string& program) {
  const fs::path file = folder / "program.py";
  std::ofstream out(file, std::ios::binary);
  if (!(out << program).flush()) throw failed(file.string());
  fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);  // whatever the umask
  return file;
}

/// In memory, so that the program under test cannot open it by path.
void write_tests(const FileDescriptor& file, const Submission& submission) {
  const Json given{{"prompt", submission.prompt}, {"tests", submission.tests}, {"entry_point", submission.entry_point}};
  const std::string text = given.dump(-1, ' ', true, Json::error_handler_t::replace);
  for (size_t at = 0; at < text.size();) {
    const ssize_t count = write(file.get(), text.data() + at, text.size() - at);
    if (count < 0) throw failed("the tests of a program");
    at += size_t(count);
  }
  if (lseek(file.get(), 0, SEEK_SET) != 0) throw failed("the tests of a program");
}

std::vector<std::string> python_with(const fs::path& python, const char* program) {
  const auto& programs = embedded_programs();
  std::vector<std::string> command = isolated_python_arguments(programs.at("codec.py") + programs.at(program));
  command.insert(command.begin(), python.string());
  return command;
}

/// The two processes of a program and its tests.
class Pair {
 public:
  Pair(const fs::path& python, const SandboxLimits& limits, const Submission& submission)
      : limits_(limits),
        null_(open("/dev/null", O_RDONLY | O_CLOEXEC)),
        tests_(memfd_create("tests", MFD_CLOEXEC)),
        program_(program_start(python, submission)),
        usage_(program_, folder_.path(), limits.usage),
        checker_(checker_start(python, submission)) {
    for (Pipe* pipe : {&requests_, &replies_}) {
      pipe->read_end.reset();
      pipe->write_end.reset();
    }
    verdict_.write_end.reset();
  }

  Judged judge(Clock::time_point start) {
    const auto allowed = std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(limits_.seconds));
    const bool in_time = wait_until(start + allowed);
    const int checker_status = checker_.end(), program_status = program_.end();
    const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
    if (!exceeded_.empty()) return {Verdict::failed, exceeded_, seconds};
    if (!in_time || is_out_of_cpu_time(checker_status) || is_out_of_cpu_time(program_status))
      return {Verdict::timed_out, printed("not finished after %g s", limits_.seconds), seconds};
    if (checker_status == 0 && tests_finished()) return {Verdict::passed, "", seconds};
    const bool program_exited = !(WIFSIGNALED(program_status) && WTERMSIG(program_status) == SIGKILL);
    return {Verdict::failed, (program_exited ? program_ : checker_).final_message(), seconds};
  }

 private:
  ProcessStart with_limits(ProcessStart start) const {
    start.memory_bytes = limits_.memory_bytes;
    start.file_bytes = limits_.file_bytes;
    start.cpu_seconds = int64_t(std::ceil(limits_.seconds)) + 1;
    return start;
  }

  ProcessStart program_start(const fs::path& python, const Submission& submission) const {
    ProcessStart start{.arguments = python_with(python, "candidate.py"),
                       .folder = folder_.path(),
                       .input = null_.get(),
                       .descriptors = {requests_.read_end.get(), replies_.write_end.get()}};
    start.arguments.push_back(write_program(folder_.path(), submission.program).string());
    return with_limits(start);
  }

  ProcessStart checker_start(const fs::path& python, const Submission& submission) const {
    write_tests(tests_, submission);
    return with_limits({.arguments = python_with(python, "checker.py"),
                        .input = tests_.get(),
                        .descriptors = {requests_.write_end.get(), replies_.read_end.get(), verdict_.write_end.get()}});
  }

  /// False if the tests' process is still running at the deadline.
  bool wait_until(Clock::time_point deadline) {
    while (exceeded_.empty()) {
      // poll would return at once for a closed output of a running process.
      pollfd open[] = {{checker_.exit(), POLLIN, 0},
                       {checker_closed_ ? -1 : checker_.output(), POLLIN, 0},
                       {program_closed_ ? -1 : program_.output(), POLLIN, 0}};
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
      if (left.count() < 0) return false;
      poll(open, 3, int(std::min(left + std::chrono::milliseconds(1), watch_interval).count()));
      checker_.take_output();
      program_.take_output();
      checker_closed_ |= (open[1].revents & POLLHUP) != 0;
      program_closed_ |= (open[2].revents & POLLHUP) != 0;
      if (checker_.has_ended()) return true;
      watch();
    }
    return true;
  }

  void watch() {
    if (Clock::now() < next_watch_) return;
    next_watch_ = Clock::now() + watch_interval;
    exceeded_ = usage_.exceeded();
  }

  bool tests_finished() const {
    std::array<char, 16> word{};
    return read(verdict_.read_end.get(), word.data(), word.size()) > 0;
  }

  static bool is_out_of_cpu_time(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGXCPU; }

  const SandboxLimits& limits_;
  const ScratchFolder folder_;
  const FileDescriptor null_, tests_;
  Pipe requests_ = Pipe::open(), replies_ = Pipe::open(), verdict_ = Pipe::open();
  ConfinedProcess program_;
  const UsageWatch usage_;
  ConfinedProcess checker_;
  Clock::time_point next_watch_ = Clock::now() + watch_interval;
  bool checker_closed_ = false, program_closed_ = false;
  std::string exceeded_;
};

}  // namespace

Sandbox::Sandbox(const std::string& python, const SandboxLimits& limits)
    : python_(find_interpreter(python)), limits_(limits) {
  close(landlock_rules({}));
  check_usage_is_visible();
}

Judged Sandbox::run(const Submission& submission) const {
  const auto start = Clock::now();
  return Pair(python_, limits_, submission).judge(start);
}

void Sandbox::check_works() const {
  SandboxLimits patient = limits_;
  patient.seconds = std::max(patient.seconds, seconds_for_a_check);
  const Judged judged = Pair(python_, patient, {.program = "x = 1", .tests = "assert x == 1"}).judge(Clock::now());
  if (judged.verdict == Verdict::passed) return;
  throw with_limit_named(Error(ExitStatus::storage, "a program that does nothing fails under test: " + judged.message +
                                                        "; check " + python_.string() + " and --memory-mib (" +
                                                        std::to_string(patient.memory_bytes >> 20) + ")"));
}

}  // namespace wmtp
