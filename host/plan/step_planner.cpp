#include "plan/step_planner.hpp"

#include <fstream>
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

StepPlanner::StepPlanner(const Experiment& experiment, const Catalog& catalog, std::filesystem::path database)
    : experiment_(experiment), catalog_(catalog), database_(std::move(database)) {}
StepPlanner::~StepPlanner() = default;

void StepPlanner::start() {
  folder_ = std::make_unique<ScratchFolder>();
  const std::filesystem::path file = folder_->path() / "experiment.toml";
  Experiment planned = experiment_;  // the engine reads no weights, which may tell a reference's number of heads
  const auto decide = [&](const std::string& table, FrozenConfig& frozen) {
    frozen.heads = reads_own_heads(table, experiment_, database_) ? ReferenceHeads::own : ReferenceHeads::next;
  };
  if (planned.reference.given) decide("reference", planned.reference);
  for (auto& [name, frozen] : planned.references) decide(reference_table(name), frozen);
  std::ofstream(file) << repaired_utf8(to_toml(planned));  // paths of data, which a plan does not read
  engine_ = start_step_planner(file, catalog_.folders());
}

PlannedStep StepPlanner::plan(const StepRequest& request) {
  const std::string text = Json(request).dump();
  if (const auto known = known_.find(text); known != known_.end()) return known->second;
  if (!engine_) start();
  const auto reply_text = engine_->send(text) ? engine_->receive(reply_timeout_ms, max_reply_bytes) : std::nullopt;
  if (!reply_text) {
    const std::string when = "while it planned a step of " + experiment_.file.string();
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
    throw Error(reply.at("status").get<ExitStatus>(), with_place(reply.at("error").get<std::string>(), experiment_));
  return known_[text] = reply.at("step").get<PlannedStep>();
}

}  // namespace wmtp
