// A study as its file states it, with its members loaded and checked before anything runs.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "job/job_request.hpp"
#include "plugins/catalog.hpp"
#include "study/members.hpp"
#include "study/results.hpp"
#include "study/study_plan.hpp"

namespace wmtp {

class LoadedStudy {
 public:
  /// `request`: what is common to all runs, as of load_members. `texts` outlives this object. Warns where the budgets
  /// favour a member. Errors of read_study, load_members and check_evaluations, and Error(usage) if the primary metric
  /// is not the same quantity in all members.
  LoadedStudy(const std::string& file, const JobRequest& request, SourceTexts& texts);
  LoadedStudy(const LoadedStudy&) = delete;

  const Study& study() const { return study_; }
  const Json& definition() const { return definition_; }
  /// Reads the data of the first seed. Error(data) if they are not there.
  Json inputs() const { return study_inputs(study_, members_, catalog_); }
  const std::filesystem::path& database() const { return members_.database; }
  /// Of metrics that the log's runs lack. For what trains or plans: results of other machines have what they have.
  void warn_of_unknown_metrics() const;
  StudyPlan plan() const { return plan_of_study(study_, members_, request_, catalog_, texts_); }

  /// Of the files that the run reads. Errors of load_run, Error(data) if they are not there.
  std::string data_hash(const StudyRun& run);
  /// Results whose runs read other data than they would now: "the data of member \"plain\" with seed 6". Those whose
  /// data are not here are left out.
  std::vector<std::string> with_other_data(const std::vector<StudyResult>& results);
  /// The same for all seeds of a member, whose tuned keys are chosen once. Errors of load_run and member_cost.
  double operations_per_step(const StudyRun& run);

 private:
  /// Finds StudyMember::incomparable. Error(usage) if the primary metric or its tuning compares different quantities.
  void check_quantities();
  /// A falling learning rate favours the member that has more of it behind it.
  void warn_of_unfinished_schedules() const;

  JobRequest request_;
  SourceTexts& texts_;
  Catalog catalog_;
  Study study_;
  LoadedMembers members_;
  StepPlanner planner_;
  Json definition_;
  std::map<size_t, double> operations_per_step_;  ///< by member, of those that were asked for
};

}  // namespace wmtp
