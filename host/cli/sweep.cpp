#include "cli/sweep.hpp"

#include <iostream>
#include <map>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "log/log_reader.hpp"
#include "report/compare.hpp"
#include "report/table.hpp"
#include "run/identity.hpp"

namespace wmtp {
namespace {

bool was_begun(const SweepRun& member, const std::filesystem::path& database) {
  return !LogReader(database).unfinished_with_hash(member.config_hash).empty();
}

std::string plan_of(const SweepRun& member, const SweepOptions& options) {
  if (const auto run = reusable_run(member.config_hash, options.database))
    return "run " + std::to_string(run->id) + " of the log is it";
  return options.resume && was_begun(member, options.database) ? "would go on" : "would run";
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

}  // namespace

int run_sweep(const std::vector<SweepRun>& members, const SweepOptions& options) {
  int exit_code = 0;
  size_t number = 0;
  for (const SweepRun& member : members) {
    const std::string which =
        "member " + std::to_string(++number) + " of " + std::to_string(members.size()) + " (" + member.what + "): ";
    if (options.dry_run) {
      log_info(which + plan_of(member, options));
      continue;
    }
    if (const auto run = reusable_run(member.config_hash, options.database)) {
      log_info(which + "run " + std::to_string(run->id) + " of the log is it");
      continue;
    }
    log_info(which + "runs as " + member.name);
    const int code = member.start(options.resume && was_begun(member, options.database));
    if (code != 0) log_error(which + "ended with exit code " + std::to_string(code));
    if (exit_code == 0) exit_code = code;
    if (code == static_cast<int>(ExitStatus::interrupted)) break;
  }
  if (options.dry_run) return exit_code;
  Results results(options.database);
  for (const SweepRun& member : members) results.add(member);
  results.print();
  return exit_code;
}

}  // namespace wmtp
