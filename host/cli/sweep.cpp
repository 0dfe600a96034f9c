#include "cli/sweep.hpp"

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <map>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/text.hpp"
#include "core/job/identity.hpp"
#include "core/job/resume.hpp"
#include "core/rendezvous/rank_environment.hpp"
#include "core/report/compare.hpp"
#include "core/report/table.hpp"
#include "core/runlog/log_reader.hpp"
#include "process/process_pool.hpp"

namespace wmtp {
namespace {

std::string plan_of(const SweepRun& member, const SweepOptions& options) {
  if (const auto run = reusable_run(member.config_hash, options.database))
    return "run " + std::to_string(run->id) + " of the log is it";
  return options.resume && was_begun(member.config_hash, options.database) ? "would go on" : "would run";
}

/// The members' losses, and their means where names have several seeds.
class Results {
 public:
  explicit Results(const std::filesystem::path& database) : log_(database) {}

  void add(const SweepRun& member) {
    const auto run = reusable_run(member.config_hash, log_.database());
    std::vector<nlohmann::json> row{member.name, member.seed, nullptr, "not finished", nullptr, nullptr};
    if (run) {
      std::vector<std::string> arguments;
      arguments.push_back(std::to_string(run->id));
      const Table found = log_.query(
          "SELECT id, status, train_loss, valid_loss FROM v_runs WHERE id = CAST(?1 AS INTEGER)", arguments, 1);
      for (size_t i = 0; i < 4; ++i) row[2 + i] = found.rows.at(0)[i];
      for (const size_t column : {4, 5})
        if (row[column].is_number()) losses_[member.name][column].push_back(row[column].get<double>());
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
    std::cout << "\nmeans over seeds, with their standard errors (`wmtp-host runs compare` pairs the seeds)\n";
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

/// The members in turn, and what became of each.
class Sweep {
 public:
  Sweep(const std::vector<SweepRun>& members, const SweepOptions& options)
      : members_(members), options_(options), codes_(members.size(), 0), left_out_(members.size(), false) {}

  void tell() const {
    for (size_t i = 0; i < members_.size(); ++i) log_info(which(i) + plan_of(members_[i], options_));
  }

  /// Each with all cores, so that no two members train the same one.
  void run_stages() {
    for (size_t i = 0; i < members_.size() && !interrupted_; ++i) {
      if (reusable_run(members_[i].config_hash, options_.database)) continue;
      const int code = code_of_stages(members_[i]);
      if (code == 0) continue;
      left_out_[i] = true;
      ended(i, code);
    }
  }

  void run_members() {
    ProcessPool queue;
    queue.jobs = options_.jobs;
    queue.next = [this] { return next(); };
    queue.ended = [this](size_t i, int code) {
      ended(i, code);
      return !interrupted_;
    };
    if (!interrupted_) run_pool(queue);
  }

  int exit_code() const {
    const auto bad = std::find_if(codes_.begin(), codes_.end(), [](int code) { return code != 0; });
    return bad == codes_.end() ? 0 : *bad;
  }

 private:
  std::string which(size_t i) const {
    return "member " + std::to_string(i + 1) + " of " + std::to_string(members_.size()) + " (" + members_[i].what +
           "): ";
  }

  static int code_of_stages(const SweepRun& member) {
    try {
      return member.run_stages();
    } catch (const Error& error) {  // costs this member, not the others
      log_error(error.what());
      return static_cast<int>(error.status());
    }
  }

  std::optional<PooledProcess> next() {
    for (; next_ < members_.size(); ++next_) {
      if (left_out_[next_]) continue;
      const auto run = reusable_run(members_[next_].config_hash, options_.database);
      if (!run) return start(next_++);
      log_info(which(next_) + "run " + std::to_string(run->id) + " of the log is it");
    }
    return std::nullopt;
  }

  PooledProcess start(size_t i) const {
    const SweepRun& member = members_[i];
    log_info(which(i) + "runs as " + member.name);
    PooledProcess program{i, member.call(options_.resume && was_begun(member.config_hash, options_.database)), {}, {}};
    if (options_.jobs == 1) return program;
    program.prefix = "[member " + std::to_string(i + 1) + "] ";
    if (!std::getenv("OMP_NUM_THREADS"))
      program.environment["OMP_NUM_THREADS"] =
          std::to_string(int64_t(usable_cores()) / (int64_t(options_.jobs) * member.processes));
    return program;
  }

  void ended(size_t i, int code) {
    codes_[i] = code;
    interrupted_ = interrupted_ || code == static_cast<int>(ExitStatus::interrupted);
    if (code != 0) log_error(which(i) + "ended with exit code " + std::to_string(code));
  }

  const std::vector<SweepRun>& members_;
  const SweepOptions& options_;
  std::vector<int> codes_;
  std::vector<bool> left_out_;  ///< a stage of theirs failed
  size_t next_ = 0;
  bool interrupted_ = false;
};

void check_cores(const std::vector<SweepRun>& members, size_t jobs) {
  if (jobs == 1) return;
  if (wanted_master_port() != 0)
    throw Error(ExitStatus::usage, "--jobs " + std::to_string(jobs) +
                                       ": runs beside each other cannot meet at one port; unset MASTER_PORT");
  int64_t most = 0;
  for (const SweepRun& member : members) most = std::max(most, member.processes);
  const int64_t wanted = int64_t(jobs) * most, cores = usable_cores();
  if (wanted > cores)
    throw Error(ExitStatus::usage, "--jobs " + std::to_string(jobs) + ": members of " + std::to_string(most) +
                                       (most == 1 ? " process" : " processes") + " would need " +
                                       std::to_string(wanted) + " cores, there are " + std::to_string(cores) +
                                       "; run fewer at once, or give them fewer processes (--nproc)");
}

}  // namespace

int run_sweep(const std::vector<SweepRun>& members, const SweepOptions& options) {
  check_cores(members, options.jobs);
  Sweep sweep(members, options);
  if (options.dry_run) {
    sweep.tell();
    return 0;
  }
  sweep.run_stages();
  sweep.run_members();
  Results results(options.database);
  for (const SweepRun& member : members) results.add(member);
  results.print();
  return sweep.exit_code();
}

}  // namespace wmtp
