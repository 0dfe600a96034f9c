#include "launch/sweep_run.hpp"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <optional>
#include <set>

#include "base/environment.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"
#include "comm/rank_environment.hpp"
#include "experiment/batch_size.hpp"
#include "job/stages.hpp"
#include "launch/launcher_stop_handler.hpp"
#include "launch/run_launcher.hpp"
#include "log/spool.hpp"
#include "process/process_pool.hpp"
#include "report/compare.hpp"

namespace wmtp {
namespace {

/// A member of a [sweep], or one of several files.
struct Member {
  Member(const SweepRequest& sweep, const std::string& file, const SweepMember& member, SourceTexts& texts) {
    JobRequest request = sweep.job;
    request.file = file;
    request.overrides.insert(request.overrides.end(), member.overrides.begin(), member.overrides.end());
    request.name_suffix = member.suffix;
    title = member.title;
    if (title.empty() && sweep.files.size() > 1) title = std::filesystem::path(file).filename().string();
    if (member.title.empty())
      for (const std::string& text : member.overrides) title += (title.empty() ? "" : " ") + text;
    try {
      run.emplace(request, texts);
      run->on_end(sweep.end_command);
    } catch (const Error& error) {
      if (member.overrides.empty()) throw;
      throw Error(error.status(), "a member of [sweep] (" + title + "):\n" + error.what());
    }
  }

  std::string title;  ///< "seed=1 optimizer.lr=0.001", "rho1.toml"
  std::optional<RunLauncher> run;
  std::string hash;
  bool is_taken = false;  ///< it runs or has run, or a member that is the same experiment
  int code = 0;
  RunEnd found;  ///< in the log, once it is there
};

class Sweep {
 public:
  Sweep(const SweepRequest& request, SourceTexts& texts)
      : jobs_(request.jobs), keeps_diverged_(request.keeps_diverged), resume_(request.job.resume != Resume::no) {
    for (const auto& [file, members] : request.files) {
      for (const SweepMember& member : members) members_.emplace_back(request, file, member, texts);
      if (members.empty()) members_.emplace_back(request, file, SweepMember(), texts);
    }
    check_database();
    check_cores();
    for (Member& member : members_) {
      member.run->check();
      member.hash = member.run->config_hash();
    }
    check_steps();
    if (request.job.resume == Resume::must) check_something_is_begun();
  }

  void log_plan() {
    std::set<std::string> warnings;
    for (Member& member : members_)
      for (const std::string& warning : member.run->warnings())
        if (warnings.insert(warning).second) log_warning(warning);
    for (size_t i = 0; i < members_.size(); ++i) {
      if (const auto same = members_of_hash(i); same.front() != i) {
        log_info(which(i) + "is the experiment of member " + std::to_string(same.front() + 1));
        continue;
      }
      const int64_t run = found(i).run;
      log_info(which(i) + (run != 0                ? "run " + std::to_string(run) + " is reused"
                           : resume_ && started(i) ? "would resume"
                                                   : "would run"));
    }
  }

  /// One at a time, so that no two members train the same stage. Each stage may use all cores.
  void run_stages() {
    load_spools(database());  // which may have the end of a run
    for (size_t i = 0; i < members_.size() && !interrupted_; ++i) {
      if (found(i).run != 0 || members_[i].code != 0) continue;
      if (const int code = code_of_stages(members_[i]); code != 0) ended(i, code);
      interrupted_ |= note_ranks_recorded() || members_[i].run->stop_requested();
    }
  }

  void run_members() {
    ProcessPool queue;
    queue.jobs = size_t(jobs_);
    queue.next = [this] { return next(); };
    queue.ended = [this](size_t i, int code) {
      ended(i, code);
      return !interrupted_;
    };
    if (!interrupted_) interrupted_ = run_pool(queue);
    interrupted_ |= note_ranks_recorded();
    for (size_t i = next_; interrupted_ && i < members_.size(); ++i)
      if (found(i).run == 0 && members_[i].code == 0) members_[i].code = int(ExitStatus::interrupted);
  }

  SweepOutcome outcome() {
    // Not if a guard stopped one of its stages, which leaves it without a run.
    const auto has_diverged = [&](size_t i) {
      return keeps_diverged_ && members_[i].code == int(ExitStatus::guard) && found(i).run != 0;
    };
    SweepOutcome outcome{
        .exit_code = 0,
        .stop_requested = interrupted_,
        .members = {{"name", "seed", "run", "status", "train/loss", "valid/loss", "valid/ce_head_1"}, {}, false},
        .incomparable = {},
        .ends = {},
        .repeated = {},
        .means = {{"name", "seeds", "train/loss", "valid/loss"}, {}, false}};
    std::map<std::string, std::array<std::vector<double>, 2>> losses;
    std::set<std::pair<std::string, std::string>> known;  // names with hashes
    for (size_t i = 0; i < members_.size(); ++i) {
      RunEnd end = found(i);
      if (end.run == 0) end.code = members_[i].code;
      if (outcome.exit_code == 0 && !has_diverged(i)) outcome.exit_code = members_[i].code;
      outcome.ends.push_back(end);
      const auto row = result_of(i, end);
      const bool is_new = known.emplace(row[0], members_[i].hash).second;
      for (size_t k = 0; is_new && k < 2; ++k)
        if (row[4 + k].is_number()) losses[row[0]][k].push_back(row[4 + k]);
      outcome.members.rows.push_back(row);
      if (const auto same = members_of_hash(i); same.size() > 1 && same.front() == i)
        outcome.repeated.push_back(repeated_text(same));
    }
    std::vector<int64_t> runs;
    for (const RunEnd& end : outcome.ends)
      if (end.run != 0) runs.push_back(end.run);
    outcome.incomparable = incomparable(LogReader(database()), runs, {"train/loss", "valid/loss"});
    bool several = false;
    for (const auto& [name, columns] : losses) {
      const MeanAndError train = mean_and_error(columns[0]), valid = mean_and_error(columns[1]);
      several = several || train.count > 1;
      outcome.means.rows.push_back({name, train.count, with_error(train), with_error(valid)});
    }
    if (!several) outcome.means.rows.clear();
    return outcome;
  }

 private:
  const std::filesystem::path& database() const { return members_.front().run->job().database; }

  void check_database() const {
    const Job& first = members_.front().run->job();
    for (const Member& member : members_)
      if (const Job& job = member.run->job(); job.database != first.database)
        throw Error(ExitStatus::usage, job.file + ": it logs to " + job.database.string() + ", but " + first.file +
                                           " logs to " + first.database.string() +
                                           "; set one log for all with --db, or run them separately");
  }

  /// Of the whole sweep, so that its members then resume if they were begun.
  void check_something_is_begun() {
    if (!std::any_of(members_.begin(), members_.end(), [](Member& member) { return member.run->is_begun(); }))
      throw Error(ExitStatus::data, "--resume=must: " + database().string() +
                                        " contains no unfinished run of any member; use --resume, which starts where "
                                        "there is nothing to continue");
  }

  /// The hash does not tell members apart that differ in the number of ranks only.
  void check_steps() const {
    for (size_t i = 0; i < members_.size(); ++i) {
      const size_t first = members_of_hash(i).front();
      const int64_t one = sequences_per_step(first), other = sequences_per_step(i);
      if (one != other)
        throw Error(ExitStatus::usage,
                    members_[i].run->job().file + ": " + titles({first, i}) +
                        " differ only in the number of ranks, by which the log does not tell runs apart, but their "
                        "steps read " +
                        std::to_string(one) + " and " + std::to_string(other) +
                        " sequences; set train.global_batch_size, or train.batch_size in each");
    }
  }

  int64_t sequences_per_step(size_t i) const {
    const Experiment& e = members_[i].run->job().experiment;
    return wmtp::sequences_per_step(e.train, data_ranks(e.parallel, e.parallel.processes));
  }

  void check_cores() const {
    if (jobs_ == 1) return;
    if (wanted_master_port() != 0)
      throw Error(ExitStatus::usage,
                  "--jobs " + std::to_string(jobs_) + ": concurrent runs cannot share a port; unset MASTER_PORT");
    int64_t most = 0;
    for (const Member& member : members_) most = std::max(most, member.run->job().experiment.parallel.processes);
    const int64_t wanted = jobs_ * most, cores = usable_cores();
    if (wanted > cores)
      throw Error(ExitStatus::usage, "--jobs " + std::to_string(jobs_) + ": members of " +
                                         counted(most, "process", "es") + " would need " + std::to_string(wanted) +
                                         " cores, but there are " + std::to_string(cores) +
                                         "; run fewer at once, or with fewer processes (--nproc)");
  }

  /// The members that are the same experiment as this one, and itself.
  std::vector<size_t> members_of_hash(size_t i) const {
    std::vector<size_t> found;
    for (size_t k = 0; k < members_.size(); ++k)
      if (members_[k].hash == members_[i].hash) found.push_back(k);
    return found;
  }

  std::string repeated_text(const std::vector<size_t>& same) const {
    return titles(same) + " are one experiment, because they differ in nothing that changes its result; it counts once";
  }

  std::string titles(const std::vector<size_t>& members) const {
    std::vector<std::string> all;
    for (const size_t i : members) all.push_back(std::to_string(i + 1) + " (" + members_[i].title + ")");
    return "members " + join_names(all);
  }

  /// The run that is a member's result: the newest finished one, or, if that counts, the newest one if a guard stopped
  /// it. Once found it is kept, because the search verifies a whole model.
  const RunEnd& found(size_t i) {
    Member& member = members_[i];
    if (member.found.run != 0) return member.found;
    const auto fits = [&](const LogReader& log, int64_t run) {
      return reads_as_many(log, run, member.run->job().experiment);
    };
    if (const auto finished = reusable_run(member.hash, database(), "", fits)) {
      member.found = {finished->id, 0};
    } else if (keeps_diverged_) {
      const LogReader log(database());
      const Table newest =
          log.query("SELECT id, exit_code FROM runs WHERE config_hash = ?1 ORDER BY id DESC", {member.hash}, 1);
      if (!newest.rows.empty() && newest.rows[0][1] == int(ExitStatus::guard) && fits(log, newest.rows[0][0]))
        member.found = {newest.rows[0][0], int(ExitStatus::guard)};
    }
    return member.found;
  }
  bool started(size_t i) const { return has_unfinished_run(members_[i].hash, database()); }

  std::string which(size_t i) const {
    return "member " + std::to_string(i + 1) + " of " + std::to_string(members_.size()) + " (" + members_[i].title +
           "): ";
  }

  std::vector<Json> result_of(size_t i, const RunEnd& end) const {
    const Experiment& experiment = members_[i].run->job().experiment;
    std::vector<Json> row{experiment.name, experiment.seed, nullptr, "not finished", nullptr, nullptr, nullptr};
    if (end.run != 0 && end.code == 0) {
      const Table found =
          LogReader(database())
              .query("SELECT id, status, train_loss, valid_loss, valid_head_1 FROM v_runs WHERE id = ?1", {end.run});
      std::copy(found.rows.at(0).begin(), found.rows.at(0).end(), row.begin() + 2);
    }
    return row;
  }

  int code_of_stages(Member& member) {
    try {
      return int(member.run->run_missing_stages(failed_stages_));
    } catch (const Error& error) {  // the other members still run
      log_error(error.what());
      return int(error.status());
    }
  }

  std::optional<PooledProcess> next() {
    for (; next_ < members_.size(); ++next_) {
      if (members_[next_].code != 0) continue;  // one of its stages failed
      const RunEnd& known = found(next_);
      if (known.run == 0 && members_[next_].is_taken) continue;
      if (known.run == 0) return start(next_++);
      if (known.code == 0)
        log_reuse(next_, known.run);
      else
        log_info(which(next_) + "run " + std::to_string(known.run) + " diverged, which is its result");
    }
    return std::nullopt;
  }

  /// Warns once of each plugin of which another file made runs that are reused.
  void log_reuse(size_t i, int64_t run) {
    log_info(which(i) + "run " + std::to_string(run) + " is reused");
    const RunLauncher& member = *members_[i].run;
    for (const std::string& plugin :
         rebuilt_plugins(LogReader(database()), run, member.job().experiment, member.catalog()))
      if (warned_.insert(plugin).second) log_warning(rebuilt_text("run " + std::to_string(run) + " is of", plugin));
  }

  PooledProcess start(size_t i) {
    note_ranks_start();
    for (const size_t same : members_of_hash(i)) members_[same].is_taken = true;
    const Member& member = members_[i];
    log_info(which(i) + "runs as " + member.run->job().experiment.name);
    PooledProcess program{i, member.run->member_call(), {}, {}};
    if (jobs_ == 1) return program;
    program.prefix = "[member " + std::to_string(i + 1) + "] ";
    if (environment_value("OMP_NUM_THREADS").empty())
      program.environment["OMP_NUM_THREADS"] =
          std::to_string(int64_t(usable_cores()) / (jobs_ * member.run->job().experiment.parallel.processes));
    return program;
  }

  void ended(size_t i, int code) {
    for (const size_t same : members_of_hash(i)) members_[same].code = code;
    interrupted_ = interrupted_ || code == int(ExitStatus::interrupted);
    if (code != 0) log_error(which(i) + "ended with exit code " + std::to_string(code));
  }

  std::deque<Member> members_;
  int64_t jobs_;
  bool keeps_diverged_;
  bool resume_;
  std::set<std::string> warned_;  ///< plugins
  FailedStages failed_stages_;
  size_t next_ = 0;
  bool interrupted_ = false;
};

}  // namespace

SweepOutcome run_sweep(const SweepRequest& request, SourceTexts& texts) {
  Sweep sweep(request, texts);
  sweep.run_stages();
  sweep.run_members();
  return sweep.outcome();
}

void log_sweep(const SweepRequest& request, SourceTexts& texts) { Sweep(request, texts).log_plan(); }

}  // namespace wmtp
