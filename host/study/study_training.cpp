#include "study/study_training.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "log/log_reader.hpp"
#include "study/analysis.hpp"
#include "study/evaluations.hpp"

namespace wmtp {
namespace {

std::vector<StudyRun> lacking(const Study& study, std::vector<StudyRun> runs, const std::vector<StudyResult>& known) {
  std::erase_if(runs, [&](const StudyRun& run) {
    return find_result(known, study.members[run.member].name, run.seed) != nullptr;
  });
  return runs;
}

TrainedRuns trained(const std::vector<StudyRun>& runs, const StudyRunner& runner) {
  TrainedRuns found = runner.train(runs);
  if (found.stop_requested) throw StudyInterrupted();
  return found;
}

StudyResult result_of(const Study& study, const StudyRunner& runner, const StudyRun& run, const RunEnd& end) {
  const StudyMember& member = study.members[run.member];
  StudyResult found;
  found.member = member.name;
  found.seed = run.seed;
  found.diverged = end.code != 0;
  const LogReader log(runner.database);
  read_curves(log, end.run, study.metrics(), found);
  if (found.diverged) return found;
  evaluate_run(study, member, end.run, run.seed, runner.database, runner.plugin_folders);
  read_evaluations(log, end.run, study, member, found);
  return found;
}

/// A run that cannot be evaluated is missing, so that the others count; its error is the exit code if none has failed.
std::optional<StudyResult> result_if_evaluated(const Study& study, const StudyRunner& runner, const StudyRun& run,
                                               const RunEnd& end, int& exit_code) {
  if (end.run == 0) return std::nullopt;
  try {
    return result_of(study, runner, run, end);
  } catch (const Error& error) {
    log_error(run.how.title + " is missing: " + error.what());
    if (exit_code == 0) exit_code = int(error.status());
    return std::nullopt;
  }
}

/// Returns the exit code.
int train(const Study& study, const StudyRunner& runner, const std::vector<StudyRun>& runs,
          const std::vector<TunedChoice>& choices, std::vector<StudyResult>& results) {
  if (runs.empty()) return 0;
  TrainedRuns outcome = trained(runs, runner);
  for (size_t i = 0; i < runs.size(); ++i) {
    auto found = result_if_evaluated(study, runner, runs[i], outcome.ends[i], outcome.exit_code);
    if (!found) continue;
    found->choice = choices[runs[i].member];
    found->data = runner.data_hash(runs[i]);
    found->operations_per_step = runner.operations_per_step(runs[i]);
    results.push_back(std::move(*found));
  }
  return outcome.exit_code;
}

/// The study as a tuning needs it: without what it only explores.
Study deciding_alone(Study study) {
  study.explored.clear();
  const auto decides = evaluation_metric(study.metric);
  std::erase_if(study.evaluations,
                [&](const StudyEvaluation& one) { return !decides || one.name != decides->evaluation; });
  return study;
}

/// The member's choices that `results` have not tried; none if they have its choice without what others came to.
std::vector<TunedChoice> untried(const Study& study, size_t member, const StudyResults& results) {
  const std::string& name = study.members[member].name;
  const auto is_its = [&](const auto& one) { return one.member == name; };
  std::vector<TunedChoice> choices = tuned_choices(study, member);
  if (std::ranges::none_of(results.tried, is_its) && std::ranges::any_of(results.runs, is_its)) return {};
  std::erase_if(choices, [&](const TunedChoice& choice) {
    return std::ranges::any_of(results.tried,
                               [&](const TriedChoice& one) { return is_its(one) && one.choice == choice; });
  });
  return choices;
}

/// The best choice of every member with tuned keys, or the one that its known results have; adds what it tries to
/// `results`, whose runs with another choice than the best it leaves out. Error(data) if a member has none.
std::vector<TunedChoice> tune(const Study& study, const StudyRunner& runner, StudyResults& results) {
  std::vector<TunedChoice> chosen(study.members.size());
  for (const StudyResult& one : results.runs)
    for (size_t i = 0; i < chosen.size(); ++i)
      if (one.member == study.members[i].name) chosen[i] = one.choice;
  std::vector<std::vector<TunedChoice>> open(chosen.size());
  std::vector<StudyRun> runs;
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (!study.members[i].tuned.empty()) open[i] = untried(study, i, results);
    std::ranges::move(tuning_runs(study, i, open[i]), std::back_inserter(runs));
  }
  if (runs.empty()) return chosen;
  const TrainedRuns outcome = trained(runs, runner);
  if (outcome.exit_code != 0)
    throw Error(ExitStatus(outcome.exit_code), "a run of the tuning failed; the same command continues the study");
  size_t next = 0;
  for (size_t i = 0; i < chosen.size(); ++i) {
    if (open[i].empty()) continue;
    const std::string& name = study.members[i].name;
    for (const TunedChoice& choice : open[i]) {
      TriedChoice& tried = results.tried.emplace_back(name, choice);
      for (size_t k = 0; k < study.tuning.seeds.size(); ++k, ++next)
        tried.values.push_back(
            value_at(result_of(study, runner, runs[next], outcome.ends[next]), study.metric, BudgetUnit::end, 0));
    }
    std::vector<TriedChoice> all;
    for (const TunedChoice& choice : tuned_choices(study, i))
      std::ranges::copy_if(results.tried, std::back_inserter(all),
                           [&](const TriedChoice& one) { return one.member == name && one.choice == choice; });
    const auto best = best_choice(study, all);
    if (!best)
      throw Error(ExitStatus::data, study.members[i].place + ": the tuning of member " + printable(name) +
                                        " has no choice whose runs all have a " + study.metric +
                                        " at their end; state other values");
    chosen[i] = all[*best].choice;
    log_info("tuned " + name + ": " + join_names(chosen[i]) + ", the best of " +
             counted(int64_t(all.size()), "choice"));
    std::erase_if(results.runs, [&](const StudyResult& one) { return one.member == name && one.choice != chosen[i]; });
  }
  return chosen;
}

}  // namespace

bool lacks_runs(const Study& study, const StudyResults& results) {
  const std::vector<TunedChoice> any(study.members.size());
  return !lacking(study, study_runs(stopped_study(study, results), any), results.runs).empty();
}

int train_study(const Study& study, const StudyRunner& runner, StudyResults& results) {
  check_evaluations(study, study.seeds);
  const Study tuning = deciding_alone(study);
  check_evaluations(tuning, tuning.tuning.seeds);
  const std::vector<TunedChoice> choices = tune(tuning, runner, results);
  std::vector<int64_t> looks = study.stops;
  looks.push_back(int64_t(study.seeds.size()));
  int code = 0;
  for (const int64_t look : looks) {
    Study so_far = study;
    so_far.seeds.resize(size_t(look));
    code = train(study, runner, lacking(study, study_runs(so_far, choices), results.runs), choices, results.runs);
    std::ranges::stable_sort(results.runs, {}, [&](const StudyResult& one) {
      return std::ranges::find(study.seeds, one.seed) - study.seeds.begin();
    });
    if (stopped_study(study, results).seeds.size() < study.seeds.size()) break;
  }
  return code;
}

int train_pilot(const Study& study, const StudyRunner& runner) {
  if (study.pilot_seeds.empty())
    throw Error(ExitStatus::usage, study.file.string() +
                                       ": --pilot: the study states no seeds of a pilot; add them, other ones than "
                                       "its own: pilot = [1, 2, 3]");
  check_evaluations(study, study.pilot_seeds);
  const std::vector<StudyRun> runs = pilot_runs(study, study.pilot_seeds);
  TrainedRuns outcome = trained(runs, runner);
  for (size_t i = 0; i < runs.size(); ++i)
    result_if_evaluated(study, runner, runs[i], outcome.ends[i], outcome.exit_code);
  return outcome.exit_code;
}

}  // namespace wmtp
