// Evaluations of a study's runs: what `eval` finds of each final model, as metrics at the run's end.
#pragma once

#include <filesystem>
#include <vector>

#include "study/results.hpp"

namespace wmtp {

/// Reads every suite of each of `seeds`. Error(data) as of read_suite, and for a group of a metric that a suite
/// lacks; Error(usage) for a judge that is no file.
void check_evaluations(const Study& study, const std::vector<int64_t>& seeds);

/// Makes and logs those evaluations of a member's finished run that the log lacks. Errors as of evaluate_suite.
void evaluate_run(const Study& study, const StudyMember& member, int64_t run, int64_t seed,
                  const std::filesystem::path& database, const std::vector<std::filesystem::path>& plugin_folders);

/// Fills in those metrics of `found` that are of evaluations which the log has of the member's run, at its last step.
/// [found.seed is set, and its curves are read]
void read_evaluations(const LogReader& log, int64_t run, const Study& study, const StudyMember& member,
                      StudyResult& found);

}  // namespace wmtp
