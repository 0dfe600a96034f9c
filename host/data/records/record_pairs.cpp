#include "data/records/record_pairs.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "base/random.hpp"
#include "data/window_order.hpp"

namespace wmtp {

namespace {

/// Right and wrong answers to one problem in one length bin.
struct Cell {
  std::vector<int64_t> right, wrong;
  int64_t num_pairs() const { return int64_t(right.size() * wrong.size()); }
  RecordPair pair(int64_t i) const { return {right[size_t(i) / wrong.size()], wrong[size_t(i) % wrong.size()]}; }
};

void add_pairs(const std::map<size_t, Cell>& cells, int64_t problem, const PairRules& rules,
               std::vector<RecordPair>& pairs) {
  int64_t all = 0;
  for (const auto& [bin, cell] : cells) all += cell.num_pairs();
  if (all == 0) return;
  const int64_t wanted = rules.max_per_problem > 0 ? std::min(all, rules.max_per_problem) : all;
  const auto seed = hash64(uint64_t(rules.seed), uint64_t(problem));
  const WindowOrder order(int64_t(seed >> 1), all, wanted < all ? DataOrder::shuffled : DataOrder::sequential);
  for (int64_t i = 0; i < wanted; ++i) {
    int64_t pair = order.window(i);
    auto cell = cells.begin();
    while (pair >= cell->second.num_pairs()) pair -= cell->second.num_pairs(), ++cell;
    pairs.push_back(cell->second.pair(pair));
  }
}

}  // namespace

std::vector<RecordPair> find_pairs(const std::vector<RecordEntry>& entries, const std::vector<int64_t>& chosen,
                                   const PairRules& rules) {
  const auto entry = [&](int64_t record) -> const RecordEntry& { return entries[size_t(record)]; };
  std::vector<int64_t> by_problem;
  for (const int64_t record : chosen)
    if (entry(record).problem >= 0 && entry(record).correct >= 0) by_problem.push_back(record);
  std::stable_sort(by_problem.begin(), by_problem.end(),
                   [&](int64_t a, int64_t b) { return entry(a).problem < entry(b).problem; });
  std::vector<RecordPair> pairs;
  for (size_t begin = 0, end = 0; begin < by_problem.size(); begin = end) {
    const int64_t problem = entry(by_problem[begin]).problem;
    std::map<size_t, Cell> cells;
    for (; end < by_problem.size() && entry(by_problem[end]).problem == problem; ++end) {
      const RecordEntry& one = entry(by_problem[end]);
      const auto& bounds = rules.length_bins;
      const auto bound = std::lower_bound(bounds.begin(), bounds.end(), double(one.answer()));
      Cell& cell = cells[size_t(bound - bounds.begin())];
      (one.correct == 1 ? cell.right : cell.wrong).push_back(by_problem[end]);
    }
    add_pairs(cells, problem, rules, pairs);
  }
  std::sort(pairs.begin(), pairs.end(), [](const RecordPair& a, const RecordPair& b) {
    return std::tie(a.right, a.wrong) < std::tie(b.right, b.wrong);
  });
  return pairs;
}

}  // namespace wmtp
