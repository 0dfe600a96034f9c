#include "study/study_plan.hpp"

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "job/stages.hpp"
#include "log/run_folders.hpp"
#include "plan/experiment_plan.hpp"
#include "plan/measured_rate.hpp"
#include "report/compare.hpp"
#include "report/table.hpp"
#include "study/evaluations.hpp"
#include "study/results.hpp"
#include "study/statistics.hpp"

namespace wmtp {
namespace {

using RunBySeed = std::map<int64_t, int64_t>;

bool has(const std::vector<int64_t>& seeds, int64_t seed) { return std::ranges::find(seeds, seed) != seeds.end(); }

/// Finished runs of a study in the log, by member.
struct EarlierRuns {
  std::vector<RunBySeed> runs;   ///< the newest with any seed, of a tuned member rather with one of its choices
  std::vector<int64_t> counted;  ///< how many the study does not train again
};

EarlierRuns earlier_runs(const Study& study, const JobRequest& request, const Catalog& catalog, SourceTexts& texts,
                         const LogReader& log) {
  // `may_lack_data`: seeds of other runs in the log, for which {seed} may name no data of this study.
  const auto newest = [&](const StudyRun& run, bool may_lack_data) -> int64_t {
    try {
      const Job job = load_run(run, request, catalog, texts);
      ExperimentHashes hashes(catalog, job.database);
      const auto runs = log.finished_with_hash(hashes.hash(job.experiment));
      return runs.empty() ? 0 : runs.front().id;
    } catch (const Error&) {
      if (!may_lack_data) throw;
      return 0;
    }
  };
  const auto seeds = [&](const std::string& beginning_of_name) {
    std::vector<int64_t> found;
    const char* const finished =
        "SELECT DISTINCT seed FROM runs WHERE status = 'finished' AND substr(name, 1, length(?1)) = ?1 ORDER BY seed";
    for (const Row& row : log.query(finished, {beginning_of_name}).rows) found.push_back(row[0]);
    return found;
  };
  const auto by_seed = [&](const std::vector<StudyRun>& runs) {
    std::vector<RunBySeed> found(study.members.size());
    for (const StudyRun& run : runs) {
      const int64_t id = newest(run, !has(study.seeds, run.seed) && !has(study.pilot_seeds, run.seed));
      if (id != 0) found[run.member][run.seed] = id;
    }
    return found;
  };
  EarlierRuns found{by_seed(pilot_runs(study, seeds(""))), std::vector<int64_t>(study.members.size())};
  std::vector<RunBySeed> tuned = by_seed(tuned_runs(study, seeds(study.name + "-")));
  const std::vector<int64_t> of_tuning = seeds(study.name + "-tuning-");
  for (size_t i = 0; i < study.members.size(); ++i) {
    const bool is_tuned = !study.members[i].tuned.empty();
    const RunBySeed& own = is_tuned ? tuned[i] : found.runs[i];
    found.counted[i] = std::ranges::count_if(study.seeds, [&](int64_t seed) { return own.contains(seed); });
    if (!is_tuned) continue;
    for (const StudyRun& run : tuning_runs(study, i, tuned_choices(study, i)))
      found.counted[i] += has(of_tuning, run.seed) && newest(run, /*may_lack_data=*/false) != 0;
    tuned[i].merge(found.runs[i]);
    found.runs[i] = std::move(tuned[i]);
  }
  return found;
}

class Planner {
 public:
  Planner(const Study& study, const LogReader& log, EarlierRuns earlier)
      : study_(study), log_(log), earlier_(std::move(earlier.runs)), counted_(std::move(earlier.counted)) {}

  StudyPlan plan(const LoadedMembers& members, const Catalog& catalog) {
    StudyPlan plan;
    StepPlanner planner(catalog, members.database);
    for (size_t i = 0; i < study_.members.size(); ++i) {
      MemberPlan& member = plan.members.emplace_back();
      member.cost = member_cost(members.jobs[i], catalog, planner);
      member.runs = runs_of(i);
      member.runs_in_log = counted_[i];
      member.seconds = seconds_of(i);
      ExperimentHashes hashes(catalog, members.database);
      for (const RunPlan& stage : plan_stages(members.jobs[i].experiment, hashes, ResumeRule()))
        if (stage.reused_run == 0) {
          member.stages.push_back(stage.file);
          add_stage(stage, members.jobs[i], catalog, planner, plan.stages);
        }
      if (!study_.is_control(i)) add_smallest(i, member);
    }
    scale_seconds(plan, members, catalog);
    return plan;
  }

 private:
  int64_t runs_of(size_t member) const {
    const auto tried = int64_t(tuned_choices(study_, member).size() * study_.tuning.seeds.size());
    return int64_t(study_.seeds.size()) + (study_.members[member].tuned.empty() ? 0 : tried);
  }

  static void add_stage(const RunPlan& stage, Job job, const Catalog& catalog, StepPlanner& planner,
                        std::vector<StagePlan>& all) {
    if (std::ranges::find(all, stage.config_hash, &StagePlan::config_hash) != all.end()) return;
    const Experiment* experiment = &job.experiment;
    for (const std::string& table : stage.path) experiment = experiment->stage(table);
    const Experiment own = *experiment;
    job.experiment = own;
    all.push_back({stage.file, stage.config_hash, member_cost(job, catalog, planner), std::nullopt});
  }

  std::optional<double> seconds_of(size_t member) const {
    double sum = 0;
    for (const auto& [seed, run] : earlier_[member]) sum += seconds_of_run(run);
    return earlier_[member].empty() ? std::nullopt : std::optional(sum / double(earlier_[member].size()));
  }

  /// From its start to its end, which the log has in whole seconds, or of its steps alone.
  double seconds_of_run(int64_t run) const {
    const Table found = log_.query(
        "SELECT seconds FROM v_runs WHERE id = ?1 UNION ALL "
        "SELECT value FROM v_latest WHERE run_id = ?1 AND name = 'perf/run_seconds'",
        {run});
    double most = 0;
    for (const Row& row : found.rows)
      if (row[0].is_number()) most = std::max(most, row[0].get<double>());
    return most;
  }

  /// A member that never ran, and a stage, take as long for an operation as the others, or else as the newest run of
  /// the log.
  void scale_seconds(StudyPlan& plan, const LoadedMembers& members, const Catalog& catalog) const {
    double seconds = 0, operations = 0;
    for (const MemberPlan& member : plan.members)
      if (member.seconds && member.cost.steps) {
        seconds += *member.seconds;
        operations += member.cost.operations_per_step * double(*member.cost.steps);
      }
    std::map<Precision, double> newest;  // rates, each of which takes the plan of a run
    const auto newest_rate = [&](const Job& job) {
      const auto [known, is_new] = newest.try_emplace(job.experiment.parallel.precision);
      if (is_new) known->second = rate_of_newest_run(job, catalog);
      return known->second;
    };
    const auto scaled = [&](const MemberCost& cost, const Job& job) -> std::optional<double> {
      if (!cost.steps) return std::nullopt;
      const double rate = operations > 0 ? operations / seconds : double(cost.ranks) * newest_rate(job);
      if (rate == 0) return std::nullopt;
      return cost.operations_per_step * double(*cost.steps) / rate;
    };
    for (size_t i = 0; i < plan.members.size(); ++i) {
      MemberPlan& member = plan.members[i];
      if (member.seconds) continue;
      member.seconds = scaled(member.cost, members.jobs[i]);
      member.seconds_are_scaled = member.seconds.has_value();
    }
    for (StagePlan& stage : plan.stages)
      stage.seconds = scaled(stage.cost, members.jobs[study_.members.front().control]);
  }

  /// Operations per second of a rank; 0: unknown.
  double rate_of_newest_run(const Job& job, const Catalog& catalog) const {
    const Precision precision = job.experiment.parallel.precision;
    const Table newest = log_.query(
        "SELECT id FROM runs WHERE status = 'finished' AND device = 'cpu' AND precision = ?1 ORDER BY id DESC",
        {std::string(to_string(precision))}, 1);
    if (newest.rows.empty()) return 0;
    try {
      return measured_rate(job.database, std::to_string(newest.rows[0][0].get<int64_t>()), precision, catalog)
          .operations;
    } catch (const Error&) {  // it is too short, or its plugins or data are gone
      return 0;
    }
  }

  std::optional<double> last_value(size_t member, int64_t run, int64_t seed) const {
    StudyResult result;
    result.seed = seed;
    read_curves(log_, run, {study_.metric}, result);
    read_evaluations(log_, run, study_, study_.members[member], result);
    return value_at(result, study_.metric, BudgetUnit::end, 0);
  }

  void add_smallest(size_t i, MemberPlan& member) const {
    std::vector<double> differences;
    const size_t its_control = study_.members[i].control;
    const bool is_tuned = !study_.members[i].tuned.empty() || !study_.members[its_control].tuned.empty();
    for (const auto& [seed, run] : earlier_[i]) {
      // Runs of the tuning have values that were tried, not those that are chosen.
      if (is_tuned && has(study_.tuning.seeds, seed)) continue;
      const RunBySeed& of_controls = earlier_[its_control];
      const auto control = of_controls.find(seed);
      // If only tuned keys tell a member from its control, its untuned runs, as those of a pilot, are the control's.
      if (control == of_controls.end() || control->second == run) continue;
      const auto value = last_value(i, run, seed), of_control = last_value(its_control, control->second, seed);
      if (!value || !of_control) continue;
      member.paired_seeds.push_back(seed);
      differences.push_back(*value - *of_control);
    }
    const PairedDifference found = paired_difference(differences);
    const auto pairs = int64_t(study_.seeds.size());
    if (found.pairs < 2 || pairs < 2) return;
    member.deviation = found.deviation;
    member.smallest = smallest_difference(found.deviation, pairs, study_.looks());
    member.first_smallest = smallest_difference(found.deviation, pairs, study_.comparisons() * study_.looks());
  }

  const Study& study_;
  const LogReader& log_;
  std::vector<RunBySeed> earlier_;
  std::vector<int64_t> counted_;
};

std::optional<double> hours(const StudyPlan& plan) {
  double seconds = 0;
  for (const MemberPlan& member : plan.members) {
    if (!member.seconds) return std::nullopt;
    seconds += *member.seconds * double(member.runs - member.runs_in_log);
  }
  for (const StagePlan& stage : plan.stages) {
    if (!stage.seconds) return std::nullopt;
    seconds += *stage.seconds;
  }
  return seconds / 3600;
}

Json rounded(const std::optional<double>& value) { return value ? Json(printed("%.3g", *value)) : Json(); }

void print_costs(std::ostream& out, const Study& study, const StudyPlan& plan) {
  Table table{{"member", "runs", "in the log", "seconds of a run", "memory of a run", "steps", "operations of a run"},
              {},
              false};
  for (size_t i = 0; i < plan.members.size(); ++i) {
    const MemberPlan& member = plan.members[i];
    const auto steps = member.cost.steps;
    table.rows.push_back({study.members[i].name, member.runs, member.runs_in_log,
                          member.seconds ? Json(std::string(member.seconds_are_scaled ? "about " : "") +
                                                printed("%.0f", *member.seconds))
                                         : Json(),
                          human_bytes(member.cost.bytes_per_rank * member.cost.ranks), steps ? Json(*steps) : Json(),
                          steps ? Json(printed("%.3g", member.cost.operations_per_step * double(*steps))) : Json()});
  }
  print_table(out, table, TableFormat::text);
}

void print_differences(std::ostream& out, const Study& study, const StudyPlan& plan) {
  Table table{
      {"member", "s.d. of differences", "of seeds in the log", "detectable alone", "by Holm's first test"}, {}, false};
  for (size_t i = 0; i < plan.members.size(); ++i) {
    const MemberPlan& member = plan.members[i];
    if (study.is_control(i)) continue;
    table.rows.push_back({study.members[i].name, rounded(member.deviation), int64_t(member.paired_seeds.size()),
                          rounded(member.smallest), rounded(member.first_smallest)});
  }
  out << "\nThe smallest difference in " << study.metric << " that " << counted(int64_t(study.seeds.size()), "seed")
      << " show (power 80%, two-sided at 5%, Student's t):\n";
  print_table(out, table, TableFormat::text);
  bool is_unknown = false;
  for (size_t i = 0; i < plan.members.size(); ++i)
    is_unknown = is_unknown || (!study.is_control(i) && !plan.members[i].smallest);
  if (is_unknown)
    out << (study.seeds.size() < 2
                ? "One seed shows no difference.\n"
                : "The log lacks two seeds of both this member and the control: state other seeds in "
                  "[study] pilot, and train\nthem with `wmtp-host study FILE --pilot`.\n");
}

}  // namespace

MemberCost member_cost(const Job& job, const Catalog& catalog, StepPlanner& planner) {
  const int64_t ranks = num_processes(job.experiment, job.nproc);
  Experiment experiment = with_host_shard_groups(job.experiment, ranks, ranks);
  experiment.parallel.processes = ranks;
  const ExperimentPlan plan =
      plan_experiment(experiment, catalog, cache_folder_path(job.database), planner.steps_of(experiment));
  const PlannedStep& step = plan.variants.front().step;
  return {step.work.operations * double(ranks), plan.data.tokens_a_step, plan.data.steps, ranks,
          highest_phase(step.phases)->second.total};
}

StudyPlan plan_of_study(const Study& study, const LoadedMembers& members, const JobRequest& request,
                        const Catalog& catalog, SourceTexts& texts) {
  const LogReader log(members.database);
  return Planner(study, log, earlier_runs(study, request, catalog, texts, log)).plan(members, catalog);
}

void print_plan(std::ostream& out, const Study& study, const StudyPlan& plan) {
  print_costs(out, study, plan);
  int64_t runs = 0, bytes = 0;
  std::vector<std::string> stages;
  for (const MemberPlan& member : plan.members) {
    runs += member.runs - member.runs_in_log;
    bytes = std::max(bytes, member.cost.bytes_per_rank * member.cost.ranks);
  }
  for (const StagePlan& stage : plan.stages) {
    stages.push_back(stage.file + (stage.seconds ? printed(" (about %.0f s)", *stage.seconds) : std::string()));
    bytes = std::max(bytes, stage.cost.bytes_per_rank * stage.cost.ranks);
  }
  const auto all = hours(plan);
  out << '\n'
      << counted(runs, "run") << " to train" << (stages.empty() ? "" : ", and once " + join_names(stages))
      << ", one after another: "
      << (all ? human_seconds(3600 * *all) : std::string("hours unknown, as the log has no run to measure"))
      << "; at most " << human_bytes(bytes) << " of tensors in each of --jobs\n";
  print_differences(out, study, plan);
}

Json plan_json(const Study& study, const StudyPlan& plan) {
  Json members = Json::object();
  int64_t bytes = 0;
  for (size_t i = 0; i < plan.members.size(); ++i) {
    const MemberPlan& member = plan.members[i];
    bytes = std::max(bytes, member.cost.bytes_per_rank * member.cost.ranks);
    members[study.members[i].name] = {{"runs", member.runs},
                                      {"runs_in_log", member.runs_in_log},
                                      {"seconds", member.seconds},
                                      {"memory_bytes", member.cost.bytes_per_rank * member.cost.ranks},
                                      {"steps", member.cost.steps},
                                      {"operations_per_step", member.cost.operations_per_step},
                                      {"stages", member.stages},
                                      {"paired_seeds", member.paired_seeds},
                                      {"deviation", member.deviation},
                                      {"smallest_difference", member.smallest},
                                      {"smallest_difference_by_holm", member.first_smallest}};
  }
  Json stages = Json::array();
  for (const StagePlan& stage : plan.stages) {
    bytes = std::max(bytes, stage.cost.bytes_per_rank * stage.cost.ranks);
    stages.push_back({{"file", stage.file},
                      {"seconds", stage.seconds},
                      {"steps", stage.cost.steps},
                      {"operations_per_step", stage.cost.operations_per_step}});
  }
  return {{"hours", hours(plan)}, {"memory_bytes", bytes}, {"members", members}, {"stages", stages}};
}

}  // namespace wmtp
