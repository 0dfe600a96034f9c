#include "evaluate/interpreter.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "base/error.hpp"
#include "process/child_process.hpp"

namespace wmtp {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::seconds start_limit{60};

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

/// The path that `program` reports: a program in PATH may be a script that starts the interpreter, which a confined
/// process could not do. "" when it is not Python.
fs::path interpreter_of(const fs::path& program) {
  try {
    const ChildResult child = run_child(program, {"-I", "-c", "import sys; print(sys.executable)"}, start_limit);
    if (child.exit_code == 0 && child.signal == 0) return child.output.substr(0, child.output.find('\n'));
  } catch (const Error&) {  // a file that the system cannot execute
  }
  return {};
}

}  // namespace

fs::path find_interpreter(const std::string& python) {
  const fs::path program = find_program(python);
  if (program.empty())
    throw Error(ExitStatus::usage, "found no program '" + python + "' to run tests; name one with --python");
  const fs::path interpreter = interpreter_of(program);
  if (access(interpreter.c_str(), X_OK) != 0)
    throw Error(ExitStatus::usage, program.string() + " is not Python, which runs the tests; name one with --python");
  return interpreter;
}

}  // namespace wmtp
