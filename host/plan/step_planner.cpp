#include "plan/step_planner.hpp"

#include <fstream>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "base/system_limits.hpp"
#include "base/utf8.hpp"
#include "experiment/canonical.hpp"
#include "experiment/key_place.hpp"
#include "io/scratch_folder.hpp"
#include "job/engine_process.hpp"
#include "job/frozen_shape.hpp"
#include "process/socket_child.hpp"

namespace wmtp {
namespace {

constexpr int reply_timeout_ms = 120'000;
constexpr size_t max_reply_bytes = 16 << 20;

}  // namespace

/// What was asked about an experiment.
struct StepPlanner::Steps {
  const Experiment& experiment;
  std::string file;                          ///< in which the engine reads it; "" before the first request
  std::map<std::string, PlannedStep> known;  ///< by request
};

StepPlanner::StepPlanner(const Catalog& catalog, std::filesystem::path database)
    : catalog_(catalog), database_(std::move(database)) {}
StepPlanner::~StepPlanner() = default;

PlanStep StepPlanner::steps_of(const Experiment& experiment) {
  auto steps = std::make_shared<Steps>(Steps{experiment, "", {}});
  return [this, steps = std::move(steps)](const StepRequest& request) { return plan(*steps, request); };
}

/// Writes the experiment for the engine, which reads no weights.
std::string StepPlanner::written(const Experiment& experiment) {
  const Experiment planned = with_shapes_of_weights(experiment, database_);
  if (!folder_) folder_ = std::make_unique<ScratchFolder>();
  const auto file = folder_->path() / ("experiment-" + std::to_string(++num_written_) + ".toml");
  std::ofstream(file) << repaired_utf8(to_toml(planned));  // paths of data, which a plan does not read
  return file.string();
}

PlannedStep StepPlanner::plan(Steps& steps, const StepRequest& request) {
  const std::string text = Json(request).dump();
  if (const auto known = steps.known.find(text); known != steps.known.end()) return known->second;
  if (steps.file.empty()) steps.file = written(steps.experiment);
  if (!engine_) engine_ = start_step_planner(catalog_.folders());
  const auto reply_text = engine_->send(Json{{"file", steps.file}, {"request", request}}.dump())
                              ? engine_->receive(reply_timeout_ms, max_reply_bytes)
                              : std::nullopt;
  if (!reply_text) {
    const std::string when = "while it planned a step of " + steps.experiment.file.string();
    const auto ended = engine_->process().wait_status();
    engine_->process().kill_group();
    const int status = engine_->process().wait();
    if (was_not_loaded(status))
      throw with_limit_named(Error(failure_status(status),
                                   "the engine was not loaded " + when + ", as if the linker cannot allocate memory"));
    throw Error(failure_status(status),
                "the engine " + (ended ? exit_text(status, when) : "gave no answer in time " + when));
  }
  const Json reply = Json::parse(*reply_text);
  if (reply.contains("error"))  // the engine knows no places, as it reads a text of its own
    throw Error(reply.at("status").get<ExitStatus>(),
                with_place(reply.at("error").get<std::string>(), steps.experiment));
  return steps.known[text] = reply.at("step").get<PlannedStep>();
}

}  // namespace wmtp
