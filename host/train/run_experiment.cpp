#include "train/run_experiment.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <ctime>
#include <optional>

#include "base/environment.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "base/work_progress.hpp"
#include "checkpoint/torch/folder_copies.hpp"
#include "data/tokens/step_count.hpp"
#include "job/identity.hpp"
#include "job/input_checks.hpp"
#include "job/stages.hpp"
#include "log/run_folders.hpp"
#include "log/spool.hpp"
#include "memory/caught_error.hpp"
#include "memory/phase.hpp"
#include "model/torch/product_path.hpp"
#include "process/process_stat.hpp"
#include "train/assembly.hpp"
#include "train/run_identity.hpp"
#include "train/training_loop.hpp"

namespace wmtp {
namespace {

/// Where half of a step or more is waiting.
void warn_of_bubble(const Experiment& experiment, const Session& session, Recorder& recorder) {
  const int64_t sections = experiment.parallel.pipeline, micros = micro_batches(experiment.train, session.data_ranks());
  const double bubble = pipeline_bubble(sections, micros);
  if (bubble >= 0.5)
    recorder.event(
        "warning", "pipeline", 0,
        printed("%lld sections wait for %.0f%% of each step, because it has %s: raise "
                "train.gradient_accumulation",
                static_cast<long long>(sections), 100 * bubble, counted(micros, "micro-batch", "es").c_str()));
}

void warn_of_widened_products(const ShardedModel& model, Recorder& recorder) {
  const std::string text = widened_products_notice(c10::typeMetaToScalarType(model.compute().dtype()));
  if (!text.empty()) recorder.event("warning", "precision", 0, text);
}

/// The experiment with the size of its shard groups.
Experiment with_known_groups(const Session& session, const Experiment& as_read) {
  check_groups(as_read, session.size());
  if (as_read.parallel.shard_group_size != host_shard_groups) return as_read;
  const std::string wanted_by = as_read.file.string() + ": [parallel] shard_group_size = \"host\"";
  const int64_t on_host = count_ranks_per_host(session.peers().locations(), wanted_by);
  const Experiment known = with_host_shard_groups(as_read, on_host, session.size());
  check_groups(known, session.size());
  return known;
}

RunResult run_one(Session& session, const Experiment& as_read, const Stages& stages, const ResumePoint& from) {
  const Experiment experiment = with_known_groups(session, as_read);
  set_progress_prefix(experiment.name);
  session.channels().set_timeout(peer_timeout(experiment));
  session.channels().form_sections(int(experiment.parallel.pipeline));
  session.section_channels().share_sequences(int(experiment.parallel.sequence), int(experiment.parallel.tensor));
  if (!session.writers().is_shared_folder())
    for (const auto& [table, stage] : stages)
      complete_on_every_host(session.channels(), session.writers(), stage.model);
  const RunIdentity identity = agree_on_identity(session, experiment, stages);
  Recorder recorder(session, experiment, identity, from.run_id);
  ExitStatus status = ExitStatus::bug;
  try {
    std::optional<Phase> phase(std::in_place, "start");
    Assembly assembly(session, experiment, identity, stages, [&](const std::string& text) { recorder.info(text); });
    TrainingLoop loop(session, experiment, identity, assembly, recorder);
    if (!from.folder.empty()) loop.load(from);
    if (session.device().is_cpu()) warn_of_widened_products(assembly.model(), recorder);
    warn_of_bubble(experiment, session, recorder);
    recorder.restarted(session.job().restart, assembly.trainer().state().step);
    phase.reset();
    status = loop.run();
    if (loop.has_trained()) recorder.resources(assembly.trainer().state().step);
  } catch (...) {
    const Error error = caught_error();
    recorder.failed(error);
    throw error;
  }
  recorder.end(status);
  return {status, model_in(recorder.run_folder())};
}

/// As in `runs`.started_at, which is rounded down; so this is rounded up: ranks start a second after an agent.
std::string utc_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::ceil<std::chrono::seconds>(time));
  std::tm parts{};
  gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", &parts)};
}

/// When torchrun's agent, which starts this rank again after a failure, was started; "" under another launcher.
std::string agent_begun() {
  if (environment_value("TORCHELASTIC_RUN_ID").empty()) return "";
  const auto agent = process_stat(getppid());
  return agent ? utc_text(agent->begun) : "";
}

/// As the user said. If not, a run that this job of torchrun has begun is continued: an agent starts its ranks again
/// when one of them, or another agent, is lost, and only some of the ranks are told (TORCHELASTIC_RESTART_COUNT).
ResumeRule agree_on_resume(Session& session) {
  const std::vector<std::string> begun = session.peers().gather("looking for the launcher", agent_begun());
  ResumeRule rule{session.job().resume, ""};
  if (rule.resume != Resume::no) return rule;
  for (const std::string& one : begun)
    if (!one.empty() && (rule.since.empty() || one < rule.since)) rule.since = one;
  if (!rule.since.empty()) rule.resume = Resume::if_begun;
  return rule;
}

/// Rank 0 plans for all ranks from the log.
std::vector<RunPlan> agree_on_plan(Session& session, const Experiment& experiment) {
  const ResumeRule rule = agree_on_resume(session);
  Json plan;
  if (session.is_rank0()) {
    load_spools(session.job().database);  // which may have the end of a run
    ExperimentHashes hashes(session.catalog(), session.job().database);
    const std::vector<RunPlan> runs = plan_run(experiment, hashes, rule);
    log_plan(runs);
    for (const RunPlan& run : runs)
      if (run.reused_run == 0) verify_named_checkpoints(experiment_at(experiment, run.path), session.job().database);
    plan = runs;
  }
  return Json::parse(session.peers().broadcast("looking for finished stages", plan.dump()));
}

}  // namespace

ExitStatus run_with_stages(Session& session, const Experiment& experiment) {
  const Job& job = session.job();
  if (session.own_launcher()) return run_one(session, experiment, job.stages, job.from).status;
  return run_in_order(agree_on_plan(session, experiment), [&](const RunPlan& run, const Stages& stages) {
    if (session.is_rank0()) log_start(run, !job.overrides.empty());
    return run_one(session, experiment_at(experiment, run.path), stages, run.from);
  });
}

}  // namespace wmtp
