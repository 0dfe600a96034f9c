// Finds the slowest rank, for which the others waited, from the seconds of each rank by phase.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "log/log_reader.hpp"
#include "report/table.hpp"

namespace wmtp {

struct SlowestRank {
  int64_t rank = 0;
  std::string phase;   ///< in which it took the most seconds more than the others did on average
  double seconds = 0;  ///< more than the others
  double share = 0;    ///< of the rank's time
};

/// The rank with the least waiting, over all segments; nullopt for one rank or without times per rank. Phases of token
/// heads count together, as "heads".
std::optional<SlowestRank> slowest_rank(const LogReader& log, int64_t run_id);

/// "rank 1 is the slowest: 3.2s more than the others in backward", or "ranks are equally fast" below 1% of the time.
std::string slowest_rank_text(const SlowestRank& slowest);

/// Seconds by phase (rows, the longest first) and rank (columns "rank 0", …), over all segments.
Table rank_time_table(const LogReader& log, int64_t run_id);

}  // namespace wmtp
