#include "study/study.hpp"

#include <algorithm>
#include <cmath>

#include "base/text.hpp"

namespace wmtp {
namespace {

std::string with_text(std::string text, std::string_view mark, const std::string& in_place) {
  for (size_t at = 0; (at = text.find(mark, at)) != std::string::npos; at += in_place.size())
    text.replace(at, mark.size(), in_place);
  return text;
}

}  // namespace

std::string title_of(const StudyBudget& budget) {
  if (budget.unit == BudgetUnit::end) return "the end";
  const std::string unit = to_string(budget.unit);
  if (budget.amount == 0) return "the " + unit + " of the seed's shortest run";
  const bool is_short = budget.amount < 1e7 && budget.amount == std::floor(budget.amount);
  return (is_short ? with_thousands(int64_t(budget.amount)) : shortest_digits(budget.amount)) + " " + unit;
}

std::vector<std::string> Study::metrics() const {
  std::vector<std::string> all{metric};
  for (const std::string& name : explored)
    if (std::ranges::find(all, name) == all.end()) all.push_back(name);
  return all;
}

std::string filled_in(std::string text, int64_t seed, const std::string& condition) {
  return with_text(with_text(std::move(text), "{seed}", std::to_string(seed)), "{condition}", condition);
}

std::optional<EvaluationMetric> evaluation_metric(const std::string& metric) {
  constexpr std::string_view begin = "eval/";
  if (!metric.starts_with(begin)) return std::nullopt;
  const std::string rest = metric.substr(begin.size());
  const size_t end = rest.find('/');
  return end == std::string::npos ? EvaluationMetric{rest, ""}
                                  : EvaluationMetric{rest.substr(0, end), rest.substr(end + 1)};
}

}  // namespace wmtp
