#include "evaluate/pass_at_k.hpp"

namespace wmtp {

double pass_at_k(int64_t n, int64_t c, int64_t k) {
  double none = 1;  // the chance that all k have failed
  for (int64_t i = n - c + 1; i <= n; ++i) none *= 1.0 - double(k) / double(i);
  return n - c < k ? 1.0 : 1.0 - none;
}

}  // namespace wmtp
