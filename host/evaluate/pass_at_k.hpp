// pass@k: the chance that one of k samples drawn from n, of which c passed, has passed: 1 - C(n-c, k) / C(n, k), as a
// product (Chen et al. 2021, arXiv 2107.03374, section 2.1). Knows no LibTorch.
#pragma once

#include <cstdint>

namespace wmtp {

/// [0 <= c <= n, 1 <= k <= n]
double pass_at_k(int64_t n, int64_t c, int64_t k);

}  // namespace wmtp
