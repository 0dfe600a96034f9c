// Position by position, whether a head pulls the trunk's output where head 1 does: the summands of head_products.hpp's
// G[1][k], for which only head 1's gradient is kept.
#pragma once

#include <ATen/ATen.h>

#include <vector>

namespace wmtp {

/// Of H heads at each position, [B,L,H] fp64; undefined if there is none.
struct HeadAlignment {
  at::Tensor products;  ///< <g_1, g_k>
  at::Tensor cosines;   ///< <g_1, g_k> / (|g_1| |g_k|), from -1 to 1; 0 where a gradient is 0; 1 for head 1
};

class HeadAligner {
 public:
  /// gradient [B,L,D] of the next head, beginning with head 1. Sums are in fp64 and in a fixed order. The cosine at a
  /// position where a gradient is not finite is NaN; where head 1's is not, that of every head.
  void add(const at::Tensor& gradient);
  HeadAlignment result() const;

 private:
  at::Tensor first_, first_squares_;
  std::vector<at::Tensor> products_, cosines_;
};

}  // namespace wmtp
