// Answers that cannot be judged here, because Python lacks a module that they import.
#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <sstream>

#include "evaluate/evaluation.hpp"
#include "process/child_process.hpp"
#include "process/python_program.hpp"

namespace wmtp {
namespace {

const std::set<std::string> widely_used{"matplotlib", "networkx", "numpy", "pandas",           "regex", "requests",
                                        "scipy",      "sklearn",  "sympy", "sortedcontainers", "torch", "yaml"};
constexpr std::chrono::seconds answer_limit(60);

/// The module that the message of a failed program names; "" if it is not a widely used one.
std::string module_named(const Judged& judged) {
  const std::string begin = "ModuleNotFoundError: No module named '";
  if (judged.verdict != Verdict::failed || !judged.message.starts_with(begin)) return "";
  const size_t end = judged.message.find_first_of(".'", begin.size());
  const std::string name = judged.message.substr(begin.size(), end - begin.size());
  return widely_used.count(name) ? name : "";
}

std::set<std::string> lacking(const std::filesystem::path& python, const std::set<std::string>& modules) {
  const std::string program =
      "import sys, importlib.util as u; print(*(m for m in sys.argv[1:] if u.find_spec(m) is None), sep='\\n')";
  const auto arguments = isolated_python_arguments(program, {modules.begin(), modules.end()});
  std::istringstream lines(run_child(python, arguments, answer_limit).output);
  std::set<std::string> found;
  for (std::string line; std::getline(lines, line);) found.insert(line);
  return found;
}

}  // namespace

std::map<std::string, int64_t> remove_unjudged(std::vector<Sample>& samples, std::vector<Judged>& judged,
                                               const Sandbox& sandbox) {
  std::set<std::string> named;
  for (const Judged& one : judged)
    if (const std::string module = module_named(one); !module.empty()) named.insert(module);
  if (named.empty()) return {};
  named = lacking(sandbox.python(), named);
  std::map<std::string, int64_t> removed;
  size_t kept = 0;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (const std::string module = module_named(judged[i]); named.count(module)) {
      ++removed[module];
      continue;
    }
    if (kept != i) {
      samples[kept] = std::move(samples[i]);
      judged[kept] = std::move(judged[i]);
    }
    ++kept;
  }
  samples.resize(kept);
  judged.resize(kept);
  return removed;
}

}  // namespace wmtp
