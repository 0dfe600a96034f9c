// What a study's results show: every member against its control, by every metric, at every budget.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "study/results.hpp"
#include "study/statistics.hpp"

namespace wmtp {

enum class StudyVerdict {
  none,           ///< of the control, and of metrics that are only explored
  incomplete,     ///< a seed is missing of the member or of the control
  too_few_seeds,  ///< or ones without noise
  diverged,       ///< where the control did not: the other seeds cannot make the member better
  not_distinguishable,
  better,
  worse
};
template <>
inline constexpr auto names_of<StudyVerdict> =
    std::array{"", "incomplete", "too few seeds", "diverged", "not distinguishable", "better", "worse"};
static_assert(names_of<StudyVerdict>.size() == size_t(StudyVerdict::worse) + 1);

/// A member by one metric at one budget.
struct StudyRow {
  std::string metric;
  bool is_primary = false;
  StudyBudget budget;
  size_t member = 0;
  int64_t seeds = 0;               ///< with a value
  int64_t diverged = 0;            ///< runs that a numeric guard stopped
  int64_t missing = 0;             ///< seeds without a run, or whose run ended before the budget
  double mean = 0, deviation = 0;  ///< over these seeds
  // Not of the control:
  PairedDifference difference;        ///< from the control, over seeds that both have
  std::optional<double> corrected_p;  ///< Holm's, over all members and budgets of the primary metric, also missing ones
  std::optional<double> effect;       ///< the difference in standard deviations of the control over its seeds
  std::optional<double> smallest;     ///< the smallest difference that this noise and number of pairs would show
  StudyVerdict verdict = StudyVerdict::none;
};

struct StudyAnalysis {
  std::vector<StudyRow> rows;  ///< by metric, the primary one first, then by budget, then by member
};

StudyAnalysis analyse(const Study& study, const StudyResults& results);

/// The study with the seeds up to the first stop at which these results decide every comparison, or as it is.
Study stopped_study(const Study& study, const StudyResults& results);

/// Of the values of a choice; nullopt if a run has none.
std::optional<double> mean_value(const TriedChoice& tried);

/// Which of the choices of a member has the best mean, the first of equal ones. nullopt if none has a mean.
std::optional<size_t> best_choice(const Study& study, const std::vector<TriedChoice>& tried);

/// Results of a member, in the order of the study's seeds; nullptr where there is none.
std::vector<const StudyResult*> results_of(const Study& study, const StudyResults& results, size_t member);

}  // namespace wmtp
