// Pairs of a right and a wrong answer of similar length to the same problem. Length alone predicts the label, so a
// ranking loss over answers of arbitrary length would learn the length.
#pragma once

#include <cstdint>
#include <vector>

#include "data/records/records.hpp"

namespace wmtp {

struct RecordPair {
  int64_t right, wrong;  ///< record numbers
};

struct PairRules {
  std::vector<double> length_bins;  ///< increasing upper bounds of the answer's ids; one more bin above the last
  int64_t max_per_problem = 0;      ///< 0: no limit
  int64_t seed = 0;                 ///< selects pairs if there are more than max_per_problem
};

/// All pairs from `chosen` (increasing record numbers) with both answers in the same length bin, at most
/// max_per_problem per problem, drawn without replacement; sorted by right record, then wrong record. Records without a
/// problem or a label are in no pair.
std::vector<RecordPair> find_pairs(const std::vector<RecordEntry>& entries, const std::vector<int64_t>& chosen,
                                   const PairRules& rules);

}  // namespace wmtp
