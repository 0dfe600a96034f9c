// Which prediction drafts which token. Head k at position t predicts token t + o(k) (future_offset). Each token from
// t + 2 to t + o(H) is drafted by the first head that reaches it. Where that head reaches farther, it looks back: at an
// earlier position, which the model has read, it predicted this very token (L-MTP, arXiv 2505.17505). With offsets 1,
// 2, 3, ... all heads draft from position t.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "experiment/model_config.hpp"

namespace wmtp {

/// The number of tokens that head k >= 2 drafts: those from o(k - 1) + 1 to o(k) ahead, one at each of as many
/// positions, of which t is the last.
inline int64_t num_drafts(const std::vector<int64_t>& offsets, int64_t head) {
  return future_offset(offsets, head) - future_offset(offsets, head - 1);
}

/// Of heads 2 to `heads`, the most that one of them drafts; 1 without such a head.
inline int64_t most_drafts(const std::vector<int64_t>& offsets, int64_t heads) {
  int64_t most = 1;
  for (int64_t k = 2; k <= heads; ++k) most = std::max(most, num_drafts(offsets, k));
  return most;
}

}  // namespace wmtp
