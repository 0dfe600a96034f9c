#include "process/python_program.hpp"

#include <fmt/format.h>

#include "base/embedded.hpp"
#include "base/environment.hpp"
#include "base/error.hpp"
#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr char pythonpath[] = "PYTHONPATH";

std::string absolute_folders(const std::string& path) {
  std::vector<std::string> folders = split_search_path(path);
  std::erase_if(folders, [](const std::string& folder) { return folder[0] != '/'; });
  return fmt::format("{}", fmt::join(folders, ":"));
}

}  // namespace

UsersPython users_python(const std::string& named) {
  const std::string chosen = named.empty() ? environment_value("WMTP_PYTHON") : named;
  if (chosen.empty()) return {find_program("python3"), "python3 in PATH"};
  return {find_program(chosen), printable(chosen)};
}

// Not by -I, which also ignores the user's own packages (~/.local, PYTHONPATH), where jinja2 or wandb may be; nor by
// -P, which Python has since 3.11. -c puts an empty entry first in sys.path, which the first line removes before
// anything is imported (sys is built in). Python itself imports from PYTHONPATH before that line, and by then has made
// relative entries absolute: these are removed from the variable.
ChildRequest python_child(const std::filesystem::path& python, const std::string& program,
                          const std::vector<std::string>& arguments) {
  constexpr char without_working_folder[] = "import sys; sys.path[:] = [folder for folder in sys.path if folder]\n";
  ChildRequest request;
  request.program = python;
  request.arguments = {"-B", "-c", without_working_folder + program};
  request.arguments.insert(request.arguments.end(), arguments.begin(), arguments.end());
  auto variables = own_environment();
  variables.emplace("OPENBLAS_NUM_THREADS", "1");  // of numpy: threads that nobody uses, and an interrupt without them
  if (const auto found = variables.find(pythonpath); found != variables.end()) {
    found->second = absolute_folders(found->second);
    if (found->second.empty()) variables.erase(found);
  }
  request.environment = environment_entries(variables);
  return request;
}

std::vector<std::string> isolated_python_arguments(const std::string& program,
                                                   const std::vector<std::string>& arguments) {
  std::vector<std::string> all{"-I", "-B", "-c", program};
  all.insert(all.end(), arguments.begin(), arguments.end());
  return all;
}

ChildRequest PythonProgram::request(const std::vector<std::string>& arguments) const {
  const auto [python, name] = users_python();
  if (python.empty()) throw Error(ExitStatus::usage, "found no " + name + ", which " + purpose + "; " + advice());
  return python_child(python, embedded_programs().at(file), arguments);
}

std::string PythonProgram::advice() const {
  return "name a Python that has " + package + " in WMTP_PYTHON (pip install '" + package + "')";
}

}  // namespace wmtp
