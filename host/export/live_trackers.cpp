#include "export/live_trackers.hpp"

#include <fmt/format.h>

#include <chrono>
#include <sstream>
#include <utility>

#include "base/error.hpp"
#include "base/installation.hpp"
#include "base/text.hpp"
#include "process/python_program.hpp"

namespace wmtp {
namespace {

constexpr std::chrono::minutes limit{2};

constexpr const char* find_packages = R"(
import importlib.util
for name in sys.argv[1:]:
    if importlib.util.find_spec(name) is None: print(name)
)";

LiveTrackers::Outcome outcome_of(const std::string& name, ChildProcess& child) {
  const ChildResult result = finish_child(child, limit);
  if (result.timed_out) return {name, true, "it did not end within two minutes"};
  if (result.wait_status == 0) return {name, false, last_line(result.output)};
  const std::string said = last_line(result.messages);
  return {name, true, said.empty() ? exit_text(result.wait_status) : said};
}

}  // namespace

std::vector<std::string> missing_trackers(const LogConfig& config) {
  std::vector<std::string> packages;
  if (config.wandb) packages.emplace_back("wandb");
  if (config.trackio) packages.emplace_back("trackio");
  if (!config.mlflow.empty()) packages.emplace_back("mlflow");
  if (packages.empty()) return {};
  const auto [python, name] = users_python();
  std::istringstream missing(python.empty() ? fmt::format("{}", fmt::join(packages, " "))
                                            : run_child(python_child(python, find_packages, packages), limit).output);
  std::vector<std::string> warnings;
  for (std::string package; missing >> package;)
    warnings.push_back("[log] " + package + ": " +
                       (python.empty() ? "found no " + name : python.string() + " has no " + package) +
                       ", so the run will not be there; " + PythonProgram{"", "", package}.advice() +
                       ", now or before `wmtp-host export` sends it");
  return warnings;
}

LiveTrackers::LiveTrackers(const LogConfig& config, std::filesystem::path database, int64_t run_id)
    : database_(std::move(database)), run_id_(run_id), mlflow_(config.mlflow) {
  if (config.wandb) start("wandb", {"--to", "wandb"});
  if (config.trackio) start("trackio", {"--to", "trackio"});
}

void LiveTrackers::start(const std::string& name, const std::vector<std::string>& options) {
  Tracker& tracker = trackers_.emplace_back(Tracker{name, {}, ""});
  ChildRequest request;
  request.program = host_program();
  request.arguments = {"export", std::to_string(run_id_), "--db", database_.string(), "--no-color"};
  request.arguments.insert(request.arguments.end(), options.begin(), options.end());
  try {
    tracker.child.emplace(request);
  } catch (const Error& error) {
    tracker.failure = error.what();
  }
}

std::vector<LiveTrackers::Outcome> LiveTrackers::finish() {
  if (!mlflow_.empty()) start("mlflow", {"--to", "mlflow", "--push", mlflow_});
  std::vector<Outcome> outcomes;
  for (Tracker& tracker : trackers_)
    outcomes.push_back(tracker.child ? outcome_of(tracker.name, *tracker.child)
                                     : Outcome{tracker.name, true, tracker.failure});
  trackers_.clear();
  return outcomes;
}

}  // namespace wmtp
