#include "study/loaded_study.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/text.hpp"
#include "data/tokens/corpus.hpp"
#include "experiment/canonical.hpp"
#include "experiment/toml/value_rule.hpp"
#include "log/log_reader.hpp"
#include "log/run_folders.hpp"
#include "report/compare.hpp"
#include "study/evaluations.hpp"
#include "study/read_study.hpp"

namespace wmtp {

LoadedStudy::LoadedStudy(const std::string& file, const JobRequest& request, SourceTexts& texts)
    : request_(request),
      texts_(texts),
      catalog_(request.plugin_folders),
      study_(read_study(file, texts)),
      members_(load_members(study_, request_, catalog_, texts_)),
      planner_(catalog_, members_.database) {
  check_evaluations(study_, {study_.seeds.front()});
  check_quantities();
  definition_ = study_definition(study_, members_);
  warn_of_unfinished_schedules();
}

void LoadedStudy::check_quantities() {
  std::vector<std::map<std::string, std::string>> params;  // by member
  for (const Job& job : members_.jobs) {
    auto& of_member = params.emplace_back();
    for (const auto& [key, value] : flat_values(job.experiment)) of_member[key] = toml_text(value);
  }
  const std::string file = study_.file.string() + ": [study] metric: " + printable(study_.metric);
  for (size_t i = 0; i < params.size(); ++i) {
    StudyMember& member = study_.members[i];
    const std::string& control = study_.members[member.control].name;
    for (const std::string& metric : study_.metrics())
      if (quantity_of(metric, params[i]) != quantity_of(metric, params[member.control]))
        member.incomparable.push_back(metric);
    if (std::ranges::count(member.incomparable, study_.metric) > 0)
      throw Error(ExitStatus::usage, file + " is another quantity in member " + printable(member.name) + " than in " +
                                         printable(control) + ": " + why_no_difference);
    for (const TunedKey& key : member.tuned)
      if (!quantity_of(study_.metric, {{key.key, ""}}).empty())
        throw Error(ExitStatus::usage, key.place + ": tune." + key.key + " changes what " + printable(study_.metric) +
                                           ", the metric of " + study_.file.string() +
                                           ", measures: " + why_no_difference);
  }
}

std::string LoadedStudy::data_hash(const StudyRun& run) {
  const Job job = load_run(run, request_, catalog_, texts_);
  return data_content_hash(job.experiment, cache_folder_path(job.database));
}

std::vector<std::string> LoadedStudy::with_other_data(const std::vector<StudyResult>& results) {
  std::vector<std::string> found;
  std::vector<TunedChoice> chosen(study_.members.size());
  for (size_t i = 0; i < chosen.size(); ++i)
    if (const auto one = std::ranges::find(results, study_.members[i].name, &StudyResult::member); one != results.end())
      chosen[i] = one->choice;
  for (const StudyRun& run : study_runs(study_, chosen)) {
    const std::string& name = study_.members[run.member].name;
    const StudyResult* const known = find_result(results, name, run.seed);
    if (!known || known->data.empty()) continue;
    try {
      if (data_hash(run) != known->data)
        found.push_back("the data of member " + printable(name) + " with seed " + std::to_string(run.seed));
    } catch (const Error& error) {  // of a seed that another machine has trained
      if (error.status() != ExitStatus::data) throw;
    }
  }
  return found;
}

double LoadedStudy::operations_per_step(const StudyRun& run) {
  const auto [known, is_new] = operations_per_step_.try_emplace(run.member);
  if (is_new)
    known->second = member_cost(load_run(run, request_, catalog_, texts_), catalog_, planner_).operations_per_step;
  return known->second;
}

void LoadedStudy::warn_of_unknown_metrics() const {
  for (const std::string& warning : unknown_metrics(LogReader(members_.database), study_.metrics()))
    log_warning(study_.file.string() + ": " + warning);
}

void LoadedStudy::warn_of_unfinished_schedules() const {
  if (study_.budgets.size() == 1) return;  // the end
  for (size_t i = 0; i < study_.members.size(); ++i)
    if (const Schedule name = members_.jobs[i].experiment.schedule.name; name != Schedule::constant) {
      log_warning(study_.file.string() + ": its budgets compare runs before their end, where the learning rate of " +
                  printable(study_.members[i].name) + " still falls (schedule.name = " + printable(to_string(name)) +
                  "), so that they favour the shorter run; state schedule.name = \"constant\"");
      return;
    }
}

}  // namespace wmtp
