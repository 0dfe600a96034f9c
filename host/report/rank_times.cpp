#include "report/rank_times.hpp"

#include <algorithm>
#include <map>
#include <vector>

#include "base/text.hpp"

namespace wmtp {
namespace {

constexpr const char* waiting = "communication";
constexpr double noticeable = 0.01;  // share of a rank's time

/// Seconds are totals since the start of their segment.
constexpr const char* seconds_by_phase = R"sql(
  SELECT rank, iif(phase GLOB 'head_*', 'heads', phase) AS phase, sum(seconds) FROM (
    SELECT t.rank, t.phase, t.seconds, max(t.step) FROM v_lineage AS l JOIN rank_times AS t ON t.run_id = l.segment
    WHERE l.run_id = ?1 GROUP BY l.segment, t.rank, t.phase)
  GROUP BY 1, 2 ORDER BY 1)sql";

using Phases = std::map<std::string, double>;

std::map<int64_t, Phases> times(const LogReader& log, int64_t run_id) {
  std::map<int64_t, Phases> ranks;
  log.each_row(seconds_by_phase, {run_id},
               [&](const Statement& row) { ranks[row.integer(0)][row.text(1)] = row.real(2); });
  return ranks;
}

}  // namespace

std::optional<SlowestRank> slowest_rank(const LogReader& log, int64_t run_id) {
  std::map<int64_t, Phases> ranks = times(log, run_id);
  if (ranks.size() < 2) return std::nullopt;
  const auto slowest = std::min_element(ranks.begin(), ranks.end(),
                                        [](auto& a, auto& b) { return a.second[waiting] < b.second[waiting]; });
  SlowestRank found{.rank = slowest->first, .phase = "", .seconds = 0, .share = 0};
  double all = 0;
  for (const auto& [phase, seconds] : slowest->second) {
    all += seconds;
    if (phase == waiting) continue;
    double others = 0;
    for (auto& [rank, phases] : ranks)
      if (rank != found.rank) others += phases[phase] / double(ranks.size() - 1);
    if (seconds - others <= found.seconds) continue;
    found.seconds = seconds - others;
    found.phase = phase;
  }
  found.share = all > 0 ? found.seconds / all : 0;
  return found;
}

std::string slowest_rank_text(const SlowestRank& slowest) {
  if (slowest.share < noticeable) return "ranks are equally fast";
  return "rank " + std::to_string(slowest.rank) + " is the slowest: " + human_seconds(slowest.seconds) +
         " more than the others in " + slowest.phase;
}

Table rank_time_table(const LogReader& log, int64_t run_id) {
  const std::map<int64_t, Phases> ranks = times(log, run_id);
  Table table{{"phase"}, {}, false};
  Phases sums;
  for (const auto& [rank, phases] : ranks) {
    table.columns.push_back("rank " + std::to_string(rank));
    for (const auto& [phase, seconds] : phases) sums[phase] += seconds;
  }
  std::vector<std::string> order;
  for (const auto& [phase, seconds] : sums) order.push_back(phase);
  std::stable_sort(order.begin(), order.end(), [&](auto& a, auto& b) { return sums[a] > sums[b]; });
  for (const std::string& phase : order) {
    table.rows.push_back({phase});
    for (const auto& [rank, phases] : ranks) {
      const auto found = phases.find(phase);
      table.rows.back().push_back(found == phases.end() ? 0 : found->second);
    }
  }
  return table;
}

}  // namespace wmtp
