#include "job/stages.hpp"

#include <algorithm>
#include <chrono>
#include <thread>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "checkpoint/manifest.hpp"
#include "checkpoint/retention.hpp"
#include "experiment/batch_size.hpp"
#include "io/run_lock.hpp"
#include "job/checkpoint_rows.hpp"
#include "job/reusable_run.hpp"
#include "log/log_reader.hpp"
#include "log/run_folders.hpp"
#include "optimizer/schedule.hpp"

namespace wmtp {
namespace {

/// Passes over runs whose steps read another number of sequences, and logs why.
RunFilter of_as_many_sequences(const Experiment& experiment) {
  return [&experiment](const LogReader& log, int64_t run) {
    if (reads_as_many(log, run, experiment)) return true;
    const auto read = [&](int64_t ranks) { return std::to_string(sequences_per_step(experiment.train, ranks)); };
    log_warning("run " + std::to_string(run) + " counts as another configuration: its steps read " +
                read(data_ranks_of(log, run)) + " sequences, and those of these ranks " +
                read(data_ranks(experiment.parallel, experiment.parallel.processes)) +
                "; train.global_batch_size makes the steps of any number of ranks equal");
    return false;
  };
}

struct Planner {
  RunPlan planned(const Experiment& experiment, const std::vector<std::string>& path) {
    RunPlan run;
    run.path = path;
    run.file = experiment.file.filename().string();
    run.config_hash = hashes.hash(experiment);
    for (const auto& [table, stage] : experiment.stages) run.needs[table] = hashes.hash(*stage);
    const auto reuse = [&](const RunInfo& finished) {
      run.reused_run = finished.id;
      run.model = model_in(finished.folder);
      run.rebuilt = rebuilt_plugins(LogReader(hashes.database()), finished.id, experiment, hashes.catalog());
    };
    const bool is_stage = !path.empty(), resumes = rule.resume != Resume::no;
    if (const auto finished = is_stage ? reusable_run(run.config_hash, hashes.database()) : std::nullopt)
      reuse(*finished);
    else if (resumes)
      run.from = resume_point(run.config_hash, hashes.database(), rule).value_or(ResumePoint());
    if (!is_stage && resumes)
      if (const auto finished =
              reusable_run(run.config_hash, hashes.database(), rule.since, of_as_many_sequences(experiment));
          finished && (run.from.folder.empty() || (rule.resume != Resume::must && finished->id > run.from.run_id)))
        reuse(*finished);
    return run;
  }

  void add_stages(const Experiment& experiment, std::vector<std::string> path) {
    path.emplace_back();
    for (const auto& [table, stage] : experiment.stages) {
      const std::string& hash = hashes.hash(*stage);
      const auto same = [&](const RunPlan& run) { return run.config_hash == hash; };
      if (std::any_of(runs.begin(), runs.end(), same)) continue;
      path.back() = table;
      RunPlan run = planned(*stage, path);
      std::vector<std::string> tables;
      for (const auto& [name, other] : experiment.stages)
        if (hashes.hash(*other) == hash) tables.push_back(name);
      run.tables = join_names(tables);
      if (run.reused_run == 0) add_stages(*stage, path);
      runs.push_back(std::move(run));
    }
  }

  ExperimentHashes& hashes;
  const ResumeRule& rule;
  std::vector<RunPlan> runs = {};
};

/// A killed process holds its lock until its memory is released.
constexpr std::chrono::milliseconds lock_release_timeout{2000}, poll_interval{50};

bool is_held_after_timeout(const std::filesystem::path& run_folder) {
  for (auto waited = poll_interval; RunLock::is_held(run_folder); waited += poll_interval) {
    if (waited > lock_release_timeout) return true;
    std::this_thread::sleep_for(poll_interval);
  }
  return false;
}

/// Whether `run` continues `earlier`, directly or through others.
bool resumed(const LogReader& log, const RunInfo& run, const RunInfo& earlier) {
  const char* const segment = "SELECT 1 FROM v_lineage WHERE run_id = ?1 AND segment = ?2";
  return !log.query(segment, {run.id, earlier.id}, 1).rows.empty();
}

/// Numbers of steps, the largest first, of the logged runs of this name with fewer steps.
std::vector<int64_t> fewer_steps(const LogReader& log, const Experiment& experiment) {
  std::vector<int64_t> steps;
  log.each_row(
      "SELECT DISTINCT CAST(p.value_num AS INTEGER) FROM runs AS r JOIN run_params AS p ON p.run_id = r.id "
      "WHERE r.name = ?1 AND p.key = 'train.steps' AND p.value_num BETWEEN 1 AND ?2 ORDER BY 1 DESC",
      {experiment.name, experiment.train.steps - 1}, [&](const Statement& row) { steps.push_back(row.integer(0)); });
  return steps;
}

void log_extension(const Experiment& experiment, int64_t steps, const ResumePoint& from) {
  const int64_t last = experiment.train.steps, at = parse_checkpoint_step(from.folder.filename().string());
  log_info("run " + std::to_string(from.run_id) + " of " + counted(steps, "step") + " is extended to " +
           std::to_string(last));
  const auto rate = [&](int64_t step, int64_t of) {
    return printed("%.3g", learning_rate(experiment.schedule, experiment.optimizer.lr, step, of));
  };
  if (experiment.schedule.name != Schedule::constant)
    log_warning("the " + std::string(to_string(experiment.schedule.name)) + " schedule now ends at step " +
                std::to_string(last) + ": the learning rate was " + rate(at, steps) + " at step " + std::to_string(at) +
                ", and the next step uses " + rate(at + 1, last) + "; a run of " + std::to_string(last) +
                " steps from the start differs");
}

/// What `run.from` says.
std::string continuation(const RunPlan& run) {
  const std::string id = std::to_string(run.from.run_id);
  if (run.from.run_id == 0) return ": starts at step 0";
  if (run.from.folder.empty()) return ": run " + id + " has no checkpoint, and is started again at step 0";
  return ": continues run " + id + " at step " +
         std::to_string(parse_checkpoint_step(run.from.folder.filename().string()) + 1);
}

std::string of_this_configuration(const RunPlan& run) {
  return " of this configuration (hash " + run.config_hash.substr(0, 12) + ")";
}

std::optional<ResumePoint> extended_run(const Experiment& experiment, ExperimentHashes& hashes,
                                        const ResumeRule& rule) {
  if (!std::filesystem::exists(hashes.database())) return std::nullopt;
  const LogReader log(hashes.database());
  const RunFilter fits = of_as_many_sequences(experiment);
  for (const int64_t steps : fewer_steps(log, experiment)) {
    const std::string& hash = hashes.hash(hashes.with_steps(experiment, steps));
    for (std::vector<RunInfo> runs : {log.finished_with_hash(hash), log.unfinished_with_hash(hash)}) {
      std::erase_if(runs, [&](const RunInfo& run) { return !fits(log, run.id); });
      if (auto from = resume_point(runs, hashes.database(), rule); from && !from->folder.empty()) {
        if (experiment.data.difficulty.given) {
          log_warning("run " + std::to_string(from->run_id) + " of " + counted(steps, "step") +
                      " is not extended: with [data.difficulty], the order of the records depends on train.steps");
          return std::nullopt;
        }
        log_extension(experiment, steps, *from);
        from->config_hash = hash;
        return from;
      }
    }
  }
  return std::nullopt;
}

}  // namespace

const Experiment& ExperimentHashes::with_steps(const Experiment& experiment, int64_t steps) {
  other_steps_.push_back(experiment);
  other_steps_.back().train.steps = steps;
  return other_steps_.back();
}

const std::string& ExperimentHashes::hash(const Experiment& experiment) {
  const auto known = known_.find(&experiment);
  if (known != known_.end()) return known->second;
  return known_[&experiment] = experiment_hash(experiment, stages(experiment), catalog_, database_);
}

Stages ExperimentHashes::stages(const Experiment& experiment) {
  Stages found;
  for (const auto& [table, stage] : experiment.stages) found[table].config_hash = hash(*stage);
  return found;
}

std::vector<RunPlan> plan_stages(const Experiment& experiment, ExperimentHashes& hashes, const ResumeRule& rule) {
  Planner planner{hashes, rule};
  planner.add_stages(experiment, {});
  return std::move(planner.runs);
}

std::vector<RunPlan> plan_run(const Experiment& experiment, ExperimentHashes& hashes, const ResumeRule& rule) {
  RunPlan own = Planner{hashes, rule}.planned(experiment, {});
  if (own.reused_run > 0) return {own};
  const bool extends = rule.since.empty() && (rule.resume == Resume::if_begun || rule.resume == Resume::must);
  if (extends && own.from.folder.empty())
    if (const auto extended = extended_run(experiment, hashes, rule)) own.from = *extended;
  std::vector<RunPlan> runs = plan_stages(experiment, hashes, rule);
  const bool continues_stage =
      std::any_of(runs.begin(), runs.end(), [](const RunPlan& stage) { return stage.from.run_id > 0; });
  if (rule.resume == Resume::must && own.from.folder.empty() && !continues_stage)
    throw Error(
        ExitStatus::data,
        "--resume=must: " + hashes.database().string() + " contains no unfinished run of this experiment (hash " +
            own.config_hash.substr(0, 12) +
            ") with an intact checkpoint, nor a run of its name with fewer steps; run it with --resume, which starts " +
            "where there is nothing to continue, or extend a finished run with --set train.steps=N" +
            difference_from_newest(LogReader(hashes.database()), experiment));
  if (extends && own.from.run_id == 0)
    log_info(own.file + ": " + hashes.database().string() + " has no run" + of_this_configuration(own) +
             " to continue, so it starts at step 0" + difference_from_newest(LogReader(hashes.database()), experiment));
  runs.push_back(std::move(own));
  return runs;
}

const Experiment& experiment_at(const Experiment& experiment, const std::vector<std::string>& path) {
  const Experiment* at = &experiment;
  for (const std::string& table : path) at = at->stages.at(table).get();
  return *at;
}

void log_plan(const std::vector<RunPlan>& runs) {
  for (const RunPlan& run : runs) {
    if (run.path.empty() && run.from.run_id > 0) log_info(start_text(run));
    if (run.path.empty() && run.reused_run > 0)
      log_info(run.file + ": run " + std::to_string(run.reused_run) + of_this_configuration(run) +
               " is finished: nothing is left to do");
  }
  for (const RunPlan& run : runs) {
    if (run.reused_run > 0 && !run.path.empty())
      log_info(run.tables + ": run " + std::to_string(run.reused_run) + " of " + run.file + " is reused");
    for (const std::string& plugin : run.rebuilt)
      log_warning(rebuilt_text("run " + std::to_string(run.reused_run) + " is of", plugin));
  }
}

std::string stage_title(const RunPlan& stage) { return stage.tables + ": " + stage.file; }

std::string start_text(const RunPlan& run) {
  return (run.path.empty() ? run.file : stage_title(run)) + continuation(run);
}

void log_start(const RunPlan& run, bool has_overrides) {
  if (run.path.empty()) return;
  if (run.from.run_id > 0) log_info(start_text(run));
  log_info(stage_title(run) +
           (!run.from.folder.empty() ? " resumes from its last checkpoint first"
            : run.from.run_id > 0    ? " restarts first, because its unfinished run has no checkpoint"
                                     : " runs first: no finished run in the log") +
           (has_overrides ? "; it trains as its file says, --set does not change it" : ""));
}

ExitStatus run_in_order(const std::vector<RunPlan>& runs, const StartRun& start) {
  std::map<std::string, std::filesystem::path> models;  // by config hash
  for (const RunPlan& run : runs) {
    RunResult result{ExitStatus::done, run.model};
    if (run.reused_run == 0) {
      Stages stages;
      for (const auto& [table, hash] : run.needs) stages[table] = {hash, models.at(hash)};
      result = start(run, stages);
    }
    if (result.status != ExitStatus::done) return result.status;
    models[run.config_hash] = result.model;
  }
  return ExitStatus::done;
}

std::optional<ResumePoint> resume_point(const std::string& config_hash, const std::filesystem::path& database,
                                        const ResumeRule& rule) {
  if (!std::filesystem::exists(database)) return std::nullopt;
  return resume_point(LogReader(database).unfinished_with_hash(config_hash, rule.since), database, rule);
}

std::optional<ResumePoint> resume_point(const std::vector<RunInfo>& runs, const std::filesystem::path& database,
                                        const ResumeRule& rule) {
  const LogReader log(database);
  const auto report = [&](const std::filesystem::path& was, const std::filesystem::path&, const std::string& reason) {
    log_warning((rule.dry ? "damaged checkpoint, which a run sets aside: " : "damaged checkpoint set aside: ") +
                was.string() + ": " + reason);
  };
  std::vector<RunInfo> without;
  for (const RunInfo& run : runs) {
    if (!std::filesystem::exists(run.folder)) continue;
    if (is_held_after_timeout(run.folder)) {
      if (!rule.since.empty()) continue;
      throw Error(ExitStatus::data, "--resume: run " + std::to_string(run.id) +
                                        " of this experiment is still running (" + run.folder.string() +
                                        " is locked); stop it first");
    }
    if (!rule.dry) remove_leftovers(run.folder);
    const auto good = newest_intact(run.folder, report, /*sets_aside=*/!rule.dry);
    if (!rule.dry) correct_checkpoint_rows(database, {run.id}, run.folder);
    if (good) {
      const auto last =
          std::find_if(without.begin(), without.end(), [&](const RunInfo& newer) { return resumed(log, newer, run); });
      return ResumePoint{last == without.end() ? run.id : last->id, good->folder, ""};
    }
    without.push_back(run);
  }
  return without.empty() ? std::nullopt : std::optional(ResumePoint{without.front().id, {}, ""});
}

bool has_unfinished_run(const std::string& config_hash, const std::filesystem::path& database) {
  return std::filesystem::exists(database) && !LogReader(database).unfinished_with_hash(config_hash).empty();
}

}  // namespace wmtp
