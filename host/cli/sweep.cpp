// Runs the members of a sweep, several at a time, and prints their results.
#include <algorithm>
#include <cstdlib>
#include <deque>
#include <iostream>
#include <map>

#include "base/counted.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"
#include "cli/run.hpp"
#include "core/job/identity.hpp"
#include "core/job/resume.hpp"
#include "core/rendezvous/rank_environment.hpp"
#include "core/report/compare.hpp"
#include "core/report/table.hpp"
#include "core/runlog/log_reader.hpp"
#include "process/process_pool.hpp"

namespace wmtp {
namespace {

/// A member of [sweep], or one of several files.
struct Member {
  Member(const RunOptions& all, const std::string& file, const SweepMember& member, SourceTexts& texts) : options(all) {
    JobRequest& request = options.request;
    request.file = file;
    request.overrides.insert(request.overrides.end(), member.overrides.begin(), member.overrides.end());
    request.name_suffix = member.suffix;
    options.resume_stages = request.resume;
    request.resume = false;  // only of members that were started before
    if (all.files.size() > 1) title = std::filesystem::path(file).filename().string();
    for (const std::string& text : member.overrides) title += (title.empty() ? "" : " ") + text;
    try {
      run.emplace(options, texts);
    } catch (const Error& error) {
      if (member.overrides.empty()) throw;
      throw Error(error.status(), "a member of [sweep] (" + title + "):\n" + error.what());
    }
    request.name = run->experiment().name;
  }
  Member(const Member&) = delete;  // `run` refers to `options`

  RunOptions options;
  std::string title;  ///< "seed=1 optimizer.lr=0.001", "rho1.toml"
  std::optional<RunCommand> run;
  std::string hash;
};

/// The members' losses, and their means over seeds.
class Results {
 public:
  explicit Results(const std::filesystem::path& database) : log_(database) {}

  void add(const Member& member) {
    const Experiment& experiment = member.run->experiment();
    const auto run = reusable_run(member.hash, log_.database());
    std::vector<nlohmann::json> row{experiment.name, experiment.seed, nullptr, "not finished", nullptr, nullptr};
    if (run) {
      const Table found = log_.query("SELECT id, status, train_loss, valid_loss FROM v_runs WHERE id = ?1", {run->id});
      for (size_t i = 0; i < 4; ++i) row[2 + i] = found.rows.at(0)[i];
      for (const size_t column : {4, 5})
        if (row[column].is_number()) losses_[experiment.name][column].push_back(row[column].get<double>());
    }
    members_.rows.push_back(std::move(row));
  }

  void print() const {
    print_table(std::cout, members_, TableFormat::text);
    Table means{{"name", "seeds", "train/loss", "valid/loss"}, {}, false};
    bool several = false;
    for (const auto& [name, columns] : losses_) {
      const MeanOf train = mean_in(columns, 4), valid = mean_in(columns, 5);
      several = several || train.count > 1;
      means.rows.push_back({name, train.count, text_of(train), text_of(valid)});
    }
    if (!several) return;
    std::cout << "\nmeans over seeds with standard errors (`wmtp-host runs compare` pairs the seeds)\n";
    print_table(std::cout, means, TableFormat::text);
  }

 private:
  using Columns = std::map<size_t, std::vector<double>>;
  static MeanOf mean_in(const Columns& columns, size_t column) {
    const auto found = columns.find(column);
    return found == columns.end() ? MeanOf() : mean_of(found->second);
  }
  static std::string text_of(const MeanOf& of) {
    if (of.count == 0) return "-";
    return shown(of.mean) + (of.count > 1 ? printed(" ± %.2g", of.error) : "");
  }

  LogReader log_;
  Table members_{{"name", "seed", "run", "status", "train/loss", "valid/loss"}, {}, false};
  std::map<std::string, Columns> losses_;
};

class Sweep {
 public:
  Sweep(const RunOptions& options, const Sweeps& sweeps, SourceTexts& texts)
      : jobs_(std::max<int64_t>(options.jobs, 1)), resume_(options.request.resume) {
    for (size_t i = 0; i < sweeps.size(); ++i) {
      for (const SweepMember& one : sweeps[i]) members_.emplace_back(options, options.files[i], one, texts);
      if (sweeps[i].empty()) members_.emplace_back(options, options.files[i], SweepMember(), texts);
    }
    codes_.resize(members_.size());
    stage_failed_.resize(members_.size());
    check_database();
    check_cores();
    for (Member& member : members_) {
      member.run->check();
      member.hash = member.run->config_hash();
    }
  }

  void log_plan() const {
    for (size_t i = 0; i < members_.size(); ++i) {
      const auto run = finished(i);
      log_info(which(i) + (run                     ? "run " + std::to_string(run->id) + " is reused"
                           : resume_ && started(i) ? "would resume"
                                                   : "would run"));
    }
  }

  /// In turn, so that no two members train the same stage. Each stage may use all cores.
  void run_stages() {
    for (size_t i = 0; i < members_.size() && !interrupted_; ++i) {
      if (finished(i)) continue;
      const int code = code_of_stages(members_[i]);
      if (code == 0) continue;
      stage_failed_[i] = true;
      ended(i, code);
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
    if (!interrupted_) run_pool(queue);
  }

  void print_results() const {
    Results results(database());
    for (const Member& member : members_) results.add(member);
    results.print();
  }

  int exit_code() const {
    const auto bad = std::find_if(codes_.begin(), codes_.end(), [](int code) { return code != 0; });
    return bad == codes_.end() ? 0 : *bad;
  }

 private:
  const std::filesystem::path& database() const { return members_.front().run->database(); }

  void check_database() const {
    const std::string& first = members_.front().options.request.file;
    for (const Member& member : members_)
      if (member.run->database() != database())
        throw Error(ExitStatus::usage, member.options.request.file + ": its log is " + member.run->database().string() +
                                           ", that of " + first + " is " + database().string() +
                                           "; name one for all with --db, or run them separately");
  }

  void check_cores() const {
    if (jobs_ == 1) return;
    if (wanted_master_port() != 0)
      throw Error(ExitStatus::usage, "--jobs " + std::to_string(jobs_) +
                                         ": runs at the same time cannot share one port; unset MASTER_PORT");
    int64_t most = 0;
    for (const Member& member : members_) most = std::max(most, member.run->experiment().parallel.processes);
    const int64_t wanted = jobs_ * most, cores = usable_cores();
    if (wanted > cores)
      throw Error(ExitStatus::usage, "--jobs " + std::to_string(jobs_) + ": members of " +
                                         counted(most, "process", "es") + " would need " + std::to_string(wanted) +
                                         " cores, but there are " + std::to_string(cores) +
                                         "; run fewer at once, or with fewer processes (--nproc)");
  }

  std::optional<LoggedRun> finished(size_t i) const { return reusable_run(members_[i].hash, database()); }
  bool started(size_t i) const { return was_begun(members_[i].hash, database()); }

  std::string which(size_t i) const {
    return "member " + std::to_string(i + 1) + " of " + std::to_string(members_.size()) + " (" + members_[i].title +
           "): ";
  }

  static int code_of_stages(Member& member) {
    try {
      return member.run->run_missing_stages();
    } catch (const Error& error) {  // the other members still run
      log_error(error.what());
      return static_cast<int>(error.status());
    }
  }

  std::optional<PooledProcess> next() {
    for (; next_ < members_.size(); ++next_) {
      if (stage_failed_[next_]) continue;
      const auto run = finished(next_);
      if (!run) return start(next_++);
      log_info(which(next_) + "run " + std::to_string(run->id) + " is reused");
    }
    return std::nullopt;
  }

  PooledProcess start(size_t i) const {
    const Member& member = members_[i];
    log_info(which(i) + "runs as " + member.options.request.name);
    PooledProcess program{i, member.run->member_call(resume_ && started(i)), {}, {}};
    if (jobs_ == 1) return program;
    program.prefix = "[member " + std::to_string(i + 1) + "] ";
    if (!std::getenv("OMP_NUM_THREADS"))
      program.environment["OMP_NUM_THREADS"] =
          std::to_string(int64_t(usable_cores()) / (jobs_ * member.run->experiment().parallel.processes));
    return program;
  }

  void ended(size_t i, int code) {
    codes_[i] = code;
    interrupted_ = interrupted_ || code == static_cast<int>(ExitStatus::interrupted);
    if (code != 0) log_error(which(i) + "ended with exit code " + std::to_string(code));
  }

  std::deque<Member> members_;
  int64_t jobs_;
  bool resume_;
  std::vector<int> codes_;
  std::vector<bool> stage_failed_;
  size_t next_ = 0;
  bool interrupted_ = false;
};

}  // namespace

int run_sweep(const RunOptions& options, const Sweeps& sweeps, SourceTexts& texts) {
  Sweep sweep(options, sweeps, texts);
  if (options.dry_run) {
    sweep.log_plan();
    return 0;
  }
  sweep.run_stages();
  sweep.run_members();
  sweep.print_results();
  return sweep.exit_code();
}

}  // namespace wmtp
