#include "study/analysis.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "report/compare.hpp"

namespace wmtp {
namespace {

double deviation(const MeanAndError& of) { return of.error * std::sqrt(double(of.count)); }

using Values = std::vector<std::optional<double>>;  ///< by seed

/// The least that the whole run of a member under this condition took with a seed; infinite while one is missing.
double least_spent(const Study& study, const StudyResults& results, BudgetUnit unit, const std::string& condition,
                   int64_t seed) {
  double least = std::numeric_limits<double>::infinity();
  for (const StudyMember& member : study.members) {
    if (member.condition != condition) continue;
    const StudyResult* const run = find_result(results.runs, member.name, seed);
    if (!run || (!run->diverged && run->steps.empty())) return std::numeric_limits<double>::infinity();
    if (!run->diverged) least = std::min(least, spent(*run, unit).back());
  }
  return least;
}

/// What each seed is compared at, by seed: the amount itself, or what the shortest run took.
std::vector<double> amounts(const Study& study, const StudyResults& results, const StudyBudget& budget,
                            const std::string& condition) {
  std::vector<double> found(study.seeds.size(), budget.amount);
  if (budget.unit == BudgetUnit::end || budget.amount > 0) return found;
  std::ranges::transform(study.seeds, found.begin(),
                         [&](int64_t seed) { return least_spent(study, results, budget.unit, condition, seed); });
  return found;
}

class Analysis {
 public:
  Analysis(const Study& study, const StudyResults& results) : study_(study), results_(results) {}

  StudyAnalysis rows() {
    StudyAnalysis analysis;
    for (const std::string& metric : study_.metrics())
      for (const StudyBudget& budget : study_.budgets)
        for (const std::string& condition : study_.conditions) add(metric, budget, condition, analysis.rows);
    correct(analysis.rows);
    return analysis;
  }

 private:
  void add(const std::string& metric, const StudyBudget& budget, const std::string& condition,
           std::vector<StudyRow>& rows) const {
    const std::vector<double> at = amounts(study_, results_, budget, condition);
    std::optional<Values> control;  // the same of all members under the condition
    for (size_t i = 0; i < study_.members.size(); ++i) {
      if (study_.members[i].condition != condition) continue;
      if (!control) control = values(study_.members[i].control, metric, budget.unit, at);
      StudyRow row;
      row.metric = metric;
      row.is_primary = metric == study_.metric;
      row.budget = budget;
      row.member = i;
      const Values own = values(i, metric, budget.unit, at);
      describe(own, row);
      if (!study_.is_control(i) && std::ranges::count(study_.members[i].incomparable, metric) == 0)
        compare(own, *control, row);
      rows.push_back(row);
    }
  }

  Values values(size_t member, const std::string& metric, BudgetUnit unit, const std::vector<double>& at) const {
    Values found;
    const auto runs = results_of(study_, results_, member);
    for (size_t k = 0; k < runs.size(); ++k)
      found.push_back(runs[k] ? value_at(*runs[k], metric, unit, at[k]) : std::nullopt);
    return found;
  }

  static std::vector<double> known(const Values& values) {
    std::vector<double> found;
    for (const auto& value : values)
      if (value) found.push_back(*value);
    return found;
  }

  void describe(const Values& own, StudyRow& row) const {
    const MeanAndError of = mean_and_error(known(own));
    row.seeds = of.count;
    row.mean = of.mean;
    row.deviation = deviation(of);
    for (const StudyResult* run : results_of(study_, results_, row.member)) row.diverged += run && run->diverged;
    row.missing = int64_t(own.size()) - row.seeds - row.diverged;
  }

  void compare(const Values& own, const Values& control, StudyRow& row) const {
    std::vector<double> differences;
    for (size_t k = 0; k < own.size(); ++k)
      if (own[k] && control[k]) differences.push_back(*own[k] - *control[k]);
    row.difference = paired_difference(differences);
    const double noise = deviation(mean_and_error(known(control)));
    if (noise > 0 && row.difference.pairs > 0) row.effect = row.difference.mean / noise;
    if (row.difference.pairs > 1)
      row.smallest =
          smallest_difference(row.difference.deviation, row.difference.pairs, study_.comparisons() * study_.looks());
  }

  void correct(std::vector<StudyRow>& rows) const {
    std::vector<double> p;
    const auto is_tested = [&](const StudyRow& row) { return row.is_primary && row.difference.p.has_value(); };
    for (const StudyRow& row : rows)
      if (is_tested(row)) p.push_back(*row.difference.p);
    const std::vector<double> corrected = holm(p, study_.comparisons());
    size_t next = 0;
    for (StudyRow& row : rows) {
      if (is_tested(row)) row.corrected_p = corrected[next++];
      if (row.is_primary && !study_.is_control(row.member)) row.verdict = verdict(row);
    }
  }

  StudyVerdict verdict(const StudyRow& row) const {
    const Lost lost = lost_pairs(row.member);
    if (row.difference.pairs + lost.diverged < int64_t(study_.seeds.size())) return StudyVerdict::incomplete;
    if (lost.diverged_alone > 0 && !is_worse(row)) return StudyVerdict::diverged;
    if (!row.corrected_p) return StudyVerdict::too_few_seeds;
    if (!is_shown(row)) return StudyVerdict::not_distinguishable;
    return is_worse(row) ? StudyVerdict::worse : StudyVerdict::better;
  }

  /// Seeds of which no difference can be taken, although both runs are there.
  struct Lost {
    int64_t diverged = 0;        ///< the member's run, or the control's
    int64_t diverged_alone = 0;  ///< of these, where only the member's did
  };
  Lost lost_pairs(size_t member) const {
    const auto own = results_of(study_, results_, member),
               control = results_of(study_, results_, study_.members[member].control);
    Lost lost;
    for (size_t k = 0; k < own.size(); ++k) {
      if (!own[k] || !control[k]) continue;
      const bool diverged = own[k]->diverged, control_diverged = control[k]->diverged;
      lost.diverged += diverged || control_diverged;
      lost.diverged_alone += diverged && !control_diverged;
    }
    return lost;
  }

  bool is_shown(const StudyRow& row) const {
    return row.corrected_p && *row.corrected_p < test_level / double(study_.looks());
  }
  bool is_worse(const StudyRow& row) const {
    return is_shown(row) && (row.difference.mean < 0) != study_.lower_is_better;
  }

  const Study& study_;
  const StudyResults& results_;
};

}  // namespace

Study stopped_study(const Study& study, const StudyResults& results) {
  const auto is_open = [](const StudyRow& row) {
    return row.verdict == StudyVerdict::incomplete || row.verdict == StudyVerdict::too_few_seeds ||
           row.verdict == StudyVerdict::not_distinguishable;
  };
  for (const int64_t stop : study.stops) {
    Study shorter = study;
    shorter.seeds.resize(size_t(stop));
    if (std::ranges::none_of(analyse(shorter, results).rows, is_open)) return shorter;
  }
  return study;
}

std::optional<double> mean_value(const TriedChoice& tried) {
  std::vector<double> values;
  for (const auto& value : tried.values)
    if (value) values.push_back(*value);
  if (values.empty() || values.size() < tried.values.size()) return std::nullopt;
  return mean_and_error(values).mean;
}

std::optional<size_t> best_choice(const Study& study, const std::vector<TriedChoice>& tried) {
  std::optional<size_t> best;
  double best_mean = 0;
  for (size_t i = 0; i < tried.size(); ++i) {
    const auto mean = mean_value(tried[i]);
    if (!mean || (best && (study.lower_is_better ? *mean >= best_mean : *mean <= best_mean))) continue;
    best = i;
    best_mean = *mean;
  }
  return best;
}

std::vector<const StudyResult*> results_of(const Study& study, const StudyResults& results, size_t member) {
  std::vector<const StudyResult*> found;
  for (const int64_t seed : study.seeds) found.push_back(find_result(results.runs, study.members[member].name, seed));
  return found;
}

StudyAnalysis analyse(const Study& study, const StudyResults& results) { return Analysis(study, results).rows(); }

}  // namespace wmtp
