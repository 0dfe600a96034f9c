#include "export/live_trackers.hpp"

#include <sys/wait.h>

#include <chrono>
#include <thread>
#include <utility>

#include "base/error.hpp"
#include "base/installation.hpp"

namespace wmtp {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::minutes limit{2};
constexpr std::chrono::milliseconds interval{50};
constexpr size_t most_output = 4096;

std::string last_line(const std::string& text) {
  const size_t end = text.find_last_not_of('\n');
  if (end == std::string::npos) return "";
  const size_t before = text.rfind('\n', end);
  return text.substr(before + 1, end - before);
}

/// Waits for the child and reads what it prints, so that it never waits for a full pipe.
LiveTrackers::Outcome outcome_of(const std::string& name, ChildProcess& child) {
  const Clock::time_point deadline = Clock::now() + limit;
  std::string output, messages;
  const auto read = [&] {
    read_available(child.stdout_pipe(), output, most_output);
    read_available(child.stderr_pipe(), messages, most_output);
  };
  std::optional<int> status;
  while (!(status = child.wait_status()) && Clock::now() < deadline) {
    read();
    std::this_thread::sleep_for(interval);
  }
  read();
  if (!status) return {name, true, "it did not end within two minutes"};
  if (WIFEXITED(*status) && WEXITSTATUS(*status) == 0) return {name, false, last_line(output)};
  const std::string said = last_line(messages);
  return {name, true, said.empty() ? exit_text(*status) : said};
}

}  // namespace

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
    tracker.child.emplace_back(request);
  } catch (const Error& error) {
    tracker.failure = error.what();
  }
}

std::vector<LiveTrackers::Outcome> LiveTrackers::finish() {
  if (!mlflow_.empty()) start("mlflow", {"--to", "mlflow", "--push", mlflow_});
  std::vector<Outcome> outcomes;
  for (Tracker& tracker : trackers_)
    outcomes.push_back(tracker.child.empty() ? Outcome{tracker.name, true, tracker.failure}
                                             : outcome_of(tracker.name, tracker.child.front()));
  trackers_.clear();
  return outcomes;
}

}  // namespace wmtp
