// What a study takes, and what it can show, before it runs: from the plan of a step, and from runs of the same
// experiments in the log, whatever their seeds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "plan/step_planner.hpp"
#include "study/members.hpp"

namespace wmtp {

/// What a run of a member costs, by the plan of its step (plan/experiment_plan.hpp).
struct MemberCost {
  double operations_per_step = 0;  ///< of all ranks; those of frozen models and repeated ones, too
  int64_t tokens_per_step = 0;     ///< padding included
  std::optional<int64_t> steps;    ///< nullopt if that depends on data that are not prepared yet
  int64_t ranks = 1;
  int64_t bytes_per_rank = 0;  ///< peak of the tensors
};

/// Errors as of plan_experiment.
MemberCost member_cost(const Job& job, const Catalog& catalog, StepPlanner& planner);

struct MemberPlan {
  MemberCost cost;
  int64_t runs = 0;                      ///< with those of the tuning
  int64_t runs_in_log = 0;               ///< of the study's own seeds
  std::optional<double> seconds;         ///< of one run
  bool seconds_are_scaled = false;       ///< from other runs, by operations
  std::vector<std::string> stages;       ///< files of those that the log lacks
  std::vector<int64_t> paired_seeds;     ///< in the log, of this member and the control
  std::optional<double> deviation;       ///< of their differences from the control, if there are two
  std::optional<double> smallest;        ///< the difference that the study's seeds show with a power of 80%
  std::optional<double> first_smallest;  ///< the same where it has to pass Holm's first test
};

/// A stage that the log lacks: the first run that needs it trains it, for all runs.
struct StagePlan {
  std::string file, config_hash;
  MemberCost cost;
  std::optional<double> seconds;  ///< from other runs, by operations
};

struct StudyPlan {
  std::vector<MemberPlan> members;
  std::vector<StagePlan> stages;
};

/// Reads the log and plans a step of each member. Errors as of plan_experiment.
StudyPlan plan_of_study(const Study& study, const LoadedMembers& members, const JobRequest& request,
                        const Catalog& catalog, SourceTexts& texts);

/// Runs, hours, memory and the smallest differences, as text.
void print_plan(std::ostream& out, const Study& study, const StudyPlan& plan);

/// The same for programs, and to be stored.
Json plan_json(const Study& study, const StudyPlan& plan);

}  // namespace wmtp
