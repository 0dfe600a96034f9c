#include "study/evaluations.hpp"

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "evaluate/model_evaluation.hpp"

namespace wmtp {
namespace {

SuiteRequest request_of(const StudyEvaluation& evaluation, const StudyMember& member, int64_t run, int64_t seed) {
  SuiteRequest request;
  request.run = std::to_string(run);
  request.suite = filled_in(evaluation.suite, seed, member.condition);
  request.judge = evaluation.judge;
  request.answers.temperature = evaluation.temperature;
  request.answers.max_tokens = evaluation.max_tokens;
  return request;
}

/// The metrics of an evaluation, with the group that each is of.
std::vector<std::pair<std::string, std::string>> metrics_of(const Study& study, const StudyEvaluation& evaluation) {
  std::vector<std::pair<std::string, std::string>> found;
  for (const std::string& metric : study.metrics())
    if (const auto of = evaluation_metric(metric); of && of->evaluation == evaluation.name)
      found.emplace_back(metric, of->group);
  return found;
}

void check_groups(const Study& study, const StudyEvaluation& evaluation, const std::string& suite) {
  std::set<std::string> groups;
  for (const Problem& problem : read_suite(suite).problems) groups.insert(group_of(problem.task_id));
  for (const auto& [metric, group] : metrics_of(study, evaluation))
    if (!group.empty() && !groups.contains(group))
      throw Error(ExitStatus::data, suite + ": no task_id begins with " + printable(group + "/") + ", of which " +
                                        study.file.string() + " has the metric " + printable(metric) +
                                        "; groups: " + join_names({groups.begin(), groups.end()}));
}

}  // namespace

void check_evaluations(const Study& study, const std::vector<int64_t>& seeds) {
  for (const StudyEvaluation& evaluation : study.evaluations) {
    if (!evaluation.judge.empty() && !std::filesystem::is_regular_file(evaluation.judge))
      throw Error(ExitStatus::usage, evaluation.place + ": judge: " + evaluation.judge + ": no such file");
    std::set<std::string> suites;
    for (const int64_t seed : seeds)
      for (const std::string& condition : study.conditions) suites.insert(filled_in(evaluation.suite, seed, condition));
    for (const std::string& suite : suites) check_groups(study, evaluation, suite);
  }
}

void evaluate_run(const Study& study, const StudyMember& member, int64_t run, int64_t seed,
                  const std::filesystem::path& database, const std::vector<std::filesystem::path>& plugin_folders) {
  for (const StudyEvaluation& evaluation : study.evaluations) {
    const SuiteRequest request = request_of(evaluation, member, run, seed);
    if (logged_evaluation(LogReader(database), run, request) == 0) evaluate_suite(request, database, plugin_folders);
  }
}

void read_evaluations(const LogReader& log, int64_t run, const Study& study, const StudyMember& member,
                      StudyResult& found) {
  if (found.steps.empty()) return;
  for (const StudyEvaluation& evaluation : study.evaluations) {
    const int64_t id = logged_evaluation(log, run, request_of(evaluation, member, run, found.seed));
    for (const auto& [metric, group] : metrics_of(study, evaluation)) {
      const auto values = found.metrics.find(metric);
      if (values == found.metrics.end()) continue;
      const Table value =
          group.empty()
              ? log.query("SELECT pass_at_1 FROM v_evaluations WHERE id = ?1", {id})
              : log.query("SELECT pass_at_1 FROM v_evaluation_groups WHERE id = ?1 AND \"group\" = ?2", {id, group});
      if (!value.rows.empty()) values->second.back() = value.rows[0][0].get<double>();
    }
  }
}

}  // namespace wmtp
