// Pairs of a right and a wrong answer to the same problem, of about the same length: length alone predicts the label,
// so a ranking loss over answers of any length learns length. Knows no LibTorch.
#pragma once

#include <cstdint>
#include <vector>

#include "core/records/records.hpp"

namespace wmtp {

struct RecordPair {
  int64_t right, wrong;  ///< numbers of records
};

struct PairRules {
  std::vector<double> length_bins;  ///< rising upper bounds of the answer's ids; one more bin above the last
  int64_t max_per_problem = 0;      ///< 0: no cap
  int64_t seed = 0;                 ///< chooses where there are more
};

/// All pairs out of `chosen` (numbers of records, rising) in which both answers lie in one bin of length, of each
/// problem at most so many, drawn without replacement; sorted by the right record, then the wrong one. Records without
/// a problem or a label are in none.
std::vector<RecordPair> find_pairs(const std::vector<RecordEntry>& entries, const std::vector<int64_t>& chosen,
                                   const PairRules& rules);

}  // namespace wmtp
