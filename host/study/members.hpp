// The runs of a study: which experiments they are, checked before anything runs, and what identifies the study.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <string>
#include <vector>

#include "base/json.hpp"
#include "experiment/load/sweep.hpp"
#include "job/job_request.hpp"
#include "study/study.hpp"

namespace wmtp {

/// A member with a seed, as a member of a sweep.
struct StudyRun {
  size_t member = 0;
  int64_t seed = 0;
  std::filesystem::path file;
  SweepMember how;
};

/// Settings of a member's tuned keys: "optimizer.lr=0.001".
using TunedChoice = std::vector<std::string>;

/// All members of a seed in succession, because machines drift. `choices`: of each member; empty for those without
/// tuned keys. The runs are named STUDY-MEMBER.
std::vector<StudyRun> study_runs(const Study& study, const std::vector<TunedChoice>& choices);
/// The same with other seeds, without choices, named STUDY-pilot-MEMBER.
std::vector<StudyRun> pilot_runs(const Study& study, const std::vector<int64_t>& seeds);

/// What is tried for a member: all combinations, the first key varying slowest, or as many different draws as the study
/// says, the same in every call. One empty choice without tuned keys.
std::vector<TunedChoice> tuned_choices(const Study& study, size_t member);

/// Runs of the members with tuned keys with each choice and these seeds.
std::vector<StudyRun> tuned_runs(const Study& study, const std::vector<int64_t>& seeds);

/// The runs that try these choices of a member, with the seeds and the data of the tuning: all seeds of the first
/// choice, then of the next. They are named STUDY-tuning-MEMBER.
std::vector<StudyRun> tuning_runs(const Study& study, size_t member, const std::vector<TunedChoice>& choices);

/// `request`: what is common to all runs (JobRequest::file and overrides are not). Errors as of load_experiment.
Job load_run(const StudyRun& run, const JobRequest& request, const Catalog& catalog, SourceTexts& texts);

/// Members with the study's first seed, as they are without tuning.
struct LoadedMembers {
  std::deque<Job> jobs;
  std::filesystem::path database;  ///< of all
};

/// Loads every member, and every value that is tuned. Error with all of their mistakes; a mistake in a change names the
/// line of the study that states it.
LoadedMembers load_members(const Study& study, const JobRequest& request, const Catalog& catalog, SourceTexts& texts);

/// What the study states, and the values of its members' experiments that belong to their identity, without paths: of
/// each control all, of each other member what differs from its control.
Json study_definition(const Study& study, const LoadedMembers& members);
/// SHA-256 of the definition.
std::string study_hash(const Json& definition);

/// The data, weights and stages of the members with the first seed, by member and table: hashes of their content, as in
/// the identity of a run, which the definition leaves out. Of each control all, of each other member what differs from
/// its control. Errors as of a run whose inputs are missing.
Json study_inputs(const Study& study, const LoadedMembers& members, const Catalog& catalog);
/// As definition_changes. Empty if one of them is unknown.
std::vector<std::string> input_changes(const Json& then, const Json& now);

/// "seeds: [11,12] then, [11,12,13] now", one for each difference of two definitions.
std::vector<std::string> definition_changes(const Json& then, const Json& now);

/// `then` with what `now` adds to it: members, conditions, later seeds, and values of tuned keys. Equal to `now` if it
/// changes nothing else, so that the results of `then` are results of `now`.
Json with_additions(Json then, const Json& now);

}  // namespace wmtp
